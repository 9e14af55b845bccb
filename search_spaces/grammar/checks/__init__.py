"""Checks of a whole sweep file."""
