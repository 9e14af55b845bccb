"""The effect of each hyperparameter on the score."""
