"""Metrics that belong to no task, which a sweep names under `evaluation.metrics`."""
