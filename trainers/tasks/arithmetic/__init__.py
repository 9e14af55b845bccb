"""Arithmetic on padded numbers: all digits of the answer in one pass."""
