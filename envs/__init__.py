"""Worlds for agents. They know no model, no prompt strategy and nothing of the engine."""
