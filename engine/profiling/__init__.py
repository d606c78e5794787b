"""Meters: what a sweep does while it runs."""
