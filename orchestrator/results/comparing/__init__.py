"""Two configurations over their seeds: shared randomness, differences, exact tests."""
