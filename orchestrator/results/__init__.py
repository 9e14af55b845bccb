"""Compute the results of a sweep: scores, medians, effects, comparisons."""
