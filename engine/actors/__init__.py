"""Agents that play one trial."""
