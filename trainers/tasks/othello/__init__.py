"""Othello: predicting the next move of random games."""
