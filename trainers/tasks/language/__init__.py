"""Predicting the next token of texts."""
