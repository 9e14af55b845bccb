"""Judge claims by sweeps: a value for each seed, a question with its interval, a verdict, and a page."""
