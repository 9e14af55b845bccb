"""The command line as Python functions that return data."""
