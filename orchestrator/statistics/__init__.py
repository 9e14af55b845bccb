"""Statistics independent of sweeps: quartiles, intervals, exact tests, effects, importance, trends."""
