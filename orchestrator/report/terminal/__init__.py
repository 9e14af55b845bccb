"""What is printed: the short report, the full one, a comparison."""
