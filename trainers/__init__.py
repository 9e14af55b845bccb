"""Train one pack of members as one stacked program. Needs torch and numpy alone.

`train(members, reporter)` is the whole interface; `MemberConfig.from_dict` builds what it takes.

Importing this package asks MKL for results that do not depend on how a matrix lies in memory or on the processor's
generation (MKL_CBWR): without it a member's products differ in the last bit with its place in a pack.
"""

import os

os.environ.setdefault("MKL_CBWR", "AVX2,STRICT")

from trainers.config.member import MemberConfig
from trainers.files.checkpoint import Checkpoints
from trainers.results import Curve, Evaluation, MemberResult, Progress, Reporter
from trainers.train import train

__all__ = ["Checkpoints", "Curve", "Evaluation", "MemberConfig", "MemberResult", "Progress", "Reporter", "train"]
