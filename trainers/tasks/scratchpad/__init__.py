"""Tasks that are answered in several states, with or without an inductive scratchpad (arXiv:2406.06467)."""
