"""Which metrics an evaluation records, at which lengths; needs no torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainers.metrics.metric import Metric
    from trainers.tasks.metric_descriptions import RecordedMetric
    from trainers.tasks.task import Task


def list_recorded_metrics(
    task: Task, model_metrics: Mapping[str, str], added_metrics: Mapping[str, Metric], evaluated_lengths: Iterable[int]
) -> dict[str, RecordedMetric]:
    """Return every recorded metric by name: of the task, of the model, and `evaluation.metrics` by their labels.

    model_metrics: the model's metrics with their better direction. added_metrics: `evaluation.metrics`.
    """
    directions = {label: metric.direction for label, metric in added_metrics.items()}
    metrics = task.recorded_metrics({**model_metrics, **directions}, evaluated_lengths)

    # An added metric may be undefined at some lengths, at which nothing is recorded.
    for name, metric in metrics.items():
        if metric.base in added_metrics:
            defined = {*added_metrics[metric.base].defined_lengths(task, metric.lengths)}
            lengths = tuple(length for length in metric.lengths if length in defined)
            trained_lengths = tuple(length for length in metric.trained_lengths if length in defined)
            metrics[name] = replace(metric, lengths=lengths, trained_lengths=trained_lengths)
    return metrics
