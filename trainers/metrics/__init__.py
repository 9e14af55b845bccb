"""Metrics that belong to no task, which a sweep names under `evaluation.metrics`.

To add one, write a file here with a registered subclass of `Metric` (metric.py), as in cross_entropy.py. A metric that
a task computes itself is declared in the task's `metrics` (trainers/README.md).
"""
