"""What kept weights show: vectors of positions, attention."""
