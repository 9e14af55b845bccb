"""Checks of a sweep file beyond its grammar, before anything is written."""
