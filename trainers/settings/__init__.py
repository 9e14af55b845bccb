"""Typed settings: fields with bounds, registered classes, and what names a configuration."""
