"""Effects of hyperparameters on the score."""
