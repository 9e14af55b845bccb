"""Figures drawn from a Summary."""
