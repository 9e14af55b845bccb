"""Tasks that are answered step by step, with or without an inductive scratchpad (arXiv:2406.06467)."""
