"""The optimizer, learning-rate schedules, weight averages, curricula and early stopping."""
