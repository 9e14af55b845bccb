"""Load and check sweep files."""
