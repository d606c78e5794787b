"""Runs Reflexion episodes against one open-weight model. Knows no concrete environment."""
