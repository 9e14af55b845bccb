"""Stacked layers: every weight and activation carries the member dimension first."""
