"""Train one pack of members as one stacked program. Needs torch and numpy; safetensors to keep weights.

`train(members, reporter)` is the whole interface; `MemberConfig.from_dict` builds members. The other names are for
writing your own tasks, models and encodings.

Importing this package sets MKL_CBWR, so that MKL's results do not depend on memory alignment or on the processor's
generation. Without it a member's matrix products differ in the last bit with its place in a pack.
"""

import os
from importlib import import_module
from typing import Any

os.environ.setdefault("MKL_CBWR", "AVX2,STRICT")

import numpy  # noqa: F401  # before torch, which would swallow a Ctrl-C while it imports numpy

_MODULES = {
    "Batch": "trainers.tensors.batch",
    "Checkpoints": "trainers.files.checkpoint",
    "Context": "trainers.positions.context",
    "Curve": "trainers.evaluation.results",
    "Decoding": "trainers.tasks.decoding",
    "Distribution": "trainers.tasks.task",
    "EvaluatedBatch": "trainers.metrics.metric",
    "Evaluation": "trainers.evaluation.results",
    "EvaluationBatch": "trainers.tasks.task",
    "Loss": "trainers.optimization.loss",
    "MemberConfig": "trainers.config.member",
    "MemberResult": "trainers.evaluation.results",
    "Metric": "trainers.metrics.metric",
    "Model": "trainers.models.model",
    "Parameter": "trainers.tensors.parameters",
    "Pass": "trainers.positions.context",
    "Position": "trainers.positions.position",
    "Progress": "trainers.evaluation.results",
    "Reporter": "trainers.evaluation.results",
    "Scores": "trainers.positions.context",
    "Sizes": "trainers.positions.position",
    "Stream": "trainers.random",
    "Task": "trainers.tasks.task",
    "Vmapped": "trainers.models.vmapped",
    "dropout": "trainers.models.keyed_dropout",
    "record": "trainers.tensors.recording",
    "register": "trainers.settings.registry",
    "setting": "trainers.settings.fields",
    "steps_to": "trainers.tasks.metric_descriptions",
    "train": "trainers.training.loop",
}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    """Import a name of `__all__` on first use, because reading a ledger needs no torch."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
