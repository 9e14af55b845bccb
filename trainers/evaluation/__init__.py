"""What is measured: forward passes, generation, evaluations of curves, attention, kept weights."""
