"""The inductive scratchpad (arXiv:2406.06467)."""
