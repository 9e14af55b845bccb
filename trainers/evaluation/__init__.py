"""Evaluation: forward passes, text generation, curves, attention weights, stored weights."""
