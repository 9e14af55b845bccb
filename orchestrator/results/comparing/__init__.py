"""Two configurations over their seeds: what is shared, differences, exact tests."""
