"""Models: one file each, registered beside its class."""
