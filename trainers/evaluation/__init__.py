"""Evaluation: forward passes, text generation, curves, attention maps, stored weights."""
