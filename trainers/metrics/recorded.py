"""Which metrics an evaluation records, at which lengths; needs no torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trainers.metrics.metric import Metric
    from trainers.tasks.metrics import RecordedMetric
    from trainers.tasks.task import Task


def recorded_metrics(
    task: Task, model_metrics: Mapping[str, str], added: Mapping[str, Metric], evaluated: Iterable[int]
) -> dict[str, RecordedMetric]:
    """Return every recorded metric by name: of the task, of the model, and `evaluation.metrics` by their labels.

    model_metrics: the model's metrics with their better direction. added: the metrics of `evaluation.metrics`, recorded
    at the lengths where they are defined. evaluated: the evaluated lengths.
    """
    directions = {label: metric.direction for label, metric in added.items()}
    described = task.recorded_metrics({**model_metrics, **directions}, evaluated)

    # Added metrics are recorded only at the lengths where they are defined.
    for name, metric in described.items():
        if metric.base in added:
            defined = {*added[metric.base].defined_lengths(task, metric.lengths)}
            lengths, trained = (
                tuple(length for length in known if length in defined)
                for known in (metric.lengths, metric.trained_lengths)
            )
            described[name] = replace(metric, lengths=lengths, trained_lengths=trained)
    return described
