"""Checks of user classes before a sweep runs: their declarations, and one training step."""
