"""Othello: the next move of random games."""
