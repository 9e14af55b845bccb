"""Figures of the score along one or two hyperparameters."""
