"""Processes that import ahead and fork whoever is asked for."""
