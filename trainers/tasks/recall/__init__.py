"""Recall tasks: flip-flop, copying, induction and instructions on strings."""
