"""Metrics apart from tasks, which a sweep names under `evaluation.metrics`."""
