"""Positional encodings: one file each, registered beside its class.

Attention calls three hooks and knows no names; a positional encoding overrides those it needs.
"""
