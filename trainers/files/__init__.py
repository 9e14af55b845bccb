"""Checkpoints, their container format, atomic writes and cache folders."""
