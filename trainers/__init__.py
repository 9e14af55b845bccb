"""Train one pack of members as one stacked program. Needs torch and numpy alone.

`train(members, reporter)` is the whole interface; `MemberConfig.from_dict` builds what it takes. The others are what
tasks, models and encodings of your own are written with.

Importing this package asks MKL for results that do not depend on how a matrix lies in memory or on the processor's
generation (MKL_CBWR): without it a member's products differ in the last bit with its place in a pack.
"""

import os

os.environ.setdefault("MKL_CBWR", "AVX2,STRICT")

import numpy  # noqa: F401  # before torch, which imports it too and swallows a Ctrl-C of that moment

from trainers.batch import Batch
from trainers.config.member import MemberConfig
from trainers.config.registry import register
from trainers.config.settings import setting
from trainers.decoding import Decoding
from trainers.files.checkpoint import Checkpoints
from trainers.models.model import Model
from trainers.models.vmapped import Vmapped
from trainers.parameters import Parameter
from trainers.positions.context import Context, Pass, Scores
from trainers.positions.position import Position, Sizes
from trainers.random import Stream
from trainers.results import Curve, Evaluation, MemberResult, Progress, Reporter
from trainers.tasks.metrics import steps_to
from trainers.tasks.task import Distribution, EvaluationBatch, Task
from trainers.train import train

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
