"""Positional encodings, one file each, which override hooks of `Position`."""
