"""Keeping the storage folder: which sweeps are there, deleting one, training one member again."""
