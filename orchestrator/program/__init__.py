"""Training code that is not ours: programs that a sweep starts, and functions that it calls."""
