"""The space: domains, their schema, and the searched keys."""
