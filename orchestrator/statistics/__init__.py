"""Statistics that know no sweep: medians, pairs, importance, resampling, effects, trends."""
