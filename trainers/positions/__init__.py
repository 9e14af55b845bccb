"""Positional encodings: one file each, registered beside its class.

The models and attention call the hooks of `Position` and know no names; an encoding overrides those it needs.
"""
