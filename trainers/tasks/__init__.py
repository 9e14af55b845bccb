"""Tasks: one file each, registered beside its class."""
