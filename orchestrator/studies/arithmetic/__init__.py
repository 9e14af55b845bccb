"""Addition, multiplication and ring regression: the claims of arXiv:2406.01895."""
