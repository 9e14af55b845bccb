"""Train one pack of members as one stacked program. Needs torch and numpy; safetensors to keep weights.

`train(members, reporter)` is the whole interface; `MemberConfig.from_dict` builds what it takes. The others are what
tasks, models and encodings of your own are written with.

Importing this package asks MKL for results that do not depend on how a matrix lies in memory or on the processor's
generation (MKL_CBWR): without it a member's products differ in the last bit with its place in a pack.
"""

import os
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

os.environ.setdefault("MKL_CBWR", "AVX2,STRICT")

import numpy  # noqa: F401  # before torch, which imports it too and swallows a Ctrl-C of that moment

if TYPE_CHECKING:
    from trainers.config.member import MemberConfig
    from trainers.evaluation.results import Curve, Evaluation, MemberResult, Progress, Reporter
    from trainers.files.checkpoint import Checkpoints
    from trainers.models.model import Model
    from trainers.models.vmapped import Vmapped
    from trainers.positions.context import Context, Pass, Scores
    from trainers.positions.position import Position, Sizes
    from trainers.random import Stream
    from trainers.settings.fields import setting
    from trainers.settings.registry import register
    from trainers.tasks.decoding import Decoding
    from trainers.tasks.metrics import steps_to
    from trainers.tasks.task import Distribution, EvaluationBatch, Task
    from trainers.tensors.batch import Batch
    from trainers.tensors.parameters import Parameter
    from trainers.training.loop import train

__all__ = [
    "Batch",
    "Checkpoints",
    "Context",
    "Curve",
    "Decoding",
    "Distribution",
    "Evaluation",
    "EvaluationBatch",
    "MemberConfig",
    "MemberResult",
    "Model",
    "Parameter",
    "Pass",
    "Position",
    "Progress",
    "Reporter",
    "Scores",
    "Sizes",
    "Stream",
    "Task",
    "Vmapped",
    "register",
    "setting",
    "steps_to",
    "train",
]

_HOMES = {
    "Batch": "trainers.tensors.batch",
    "MemberConfig": "trainers.config.member",
    "register": "trainers.settings.registry",
    "setting": "trainers.settings.fields",
    "Decoding": "trainers.tasks.decoding",
    "Checkpoints": "trainers.files.checkpoint",
    "Model": "trainers.models.model",
    "Vmapped": "trainers.models.vmapped",
    "Parameter": "trainers.tensors.parameters",
    "Context": "trainers.positions.context",
    "Pass": "trainers.positions.context",
    "Scores": "trainers.positions.context",
    "Position": "trainers.positions.position",
    "Sizes": "trainers.positions.position",
    "Stream": "trainers.random",
    "Curve": "trainers.evaluation.results",
    "Evaluation": "trainers.evaluation.results",
    "MemberResult": "trainers.evaluation.results",
    "Progress": "trainers.evaluation.results",
    "Reporter": "trainers.evaluation.results",
    "steps_to": "trainers.tasks.metrics",
    "Distribution": "trainers.tasks.task",
    "EvaluationBatch": "trainers.tasks.task",
    "Task": "trainers.tasks.task",
    "train": "trainers.training.loop",
}


def __getattr__(name: str) -> Any:
    """A name of `__all__`, imported when it is first asked for: reading what was trained needs no torch."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


class _Package(ModuleType):
    """This package, whose `train` is the function, also where the module of that name has been imported."""

    @property
    def train(self) -> Any:
        return vars(self).get("_train") or __getattr__("train")

    @train.setter
    def train(self, value: Any) -> None:
        """Importing a module sets it in its package, which is not meant here; another function is."""
        if not isinstance(value, ModuleType):
            vars(self)["_train"] = value


sys.modules[__name__].__class__ = _Package
