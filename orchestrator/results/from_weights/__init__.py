"""Results from kept weights: maps of the weights, and attention weights for one input."""
