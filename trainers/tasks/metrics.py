"""The name of `trainers.tasks.metric_descriptions` in version 2.0.0, for modules of users."""

from trainers.tasks.metric_descriptions import Evaluated, EvaluationCurves, RecordedMetric, steps_to

__all__ = ["Evaluated", "EvaluationCurves", "RecordedMetric", "steps_to"]
