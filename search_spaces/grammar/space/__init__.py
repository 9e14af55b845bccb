"""The space: domains, their schema, the keys that are varied."""
