"""What moves the weights: the optimizer, schedules, weight averages, curricula, and when to stop."""
