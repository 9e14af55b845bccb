"""Recall tasks: flip-flop, copying, induction, instructions on strings."""
