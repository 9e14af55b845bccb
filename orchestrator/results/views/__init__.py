"""Metrics against the number in their name, and against each other."""
