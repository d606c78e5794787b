"""Hydra configuration: one folder for each group; sweep.yaml is the entry."""
