"""Statistics that know no sweep: quartiles, intervals, exact tests, effects, importance, trends."""
