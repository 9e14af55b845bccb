"""What the numbers of a sweep say: scores, medians, effects, comparisons."""
