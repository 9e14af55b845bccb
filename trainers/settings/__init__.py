"""Typed settings: fields with bounds, registered classes, and the identity of a configuration."""
