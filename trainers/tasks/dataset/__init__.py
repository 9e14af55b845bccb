"""Training and test rows from files."""
