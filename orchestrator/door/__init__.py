"""The door in Python: what the command line can do, as functions that return data."""
