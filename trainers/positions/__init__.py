"""Positional encodings, a file each; a class overrides hooks of `Position`."""
