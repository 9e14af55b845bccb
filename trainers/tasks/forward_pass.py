"""The name of `trainers.tasks.evaluated_model` in version 2.0.0, for modules of users."""

from trainers.tasks.evaluated_model import EvaluatedModel, ForwardPass

__all__ = ["EvaluatedModel", "ForwardPass"]
