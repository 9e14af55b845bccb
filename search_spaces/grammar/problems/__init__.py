"""What is wrong with a file, where, and what is allowed."""
