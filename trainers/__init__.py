"""Train one pack of members as one stacked program. Needs torch and numpy alone.

`train(members, reporter)` is the whole interface; `MemberConfig.from_dict` builds what it takes.
"""

from trainers.checkpoint import Checkpoints
from trainers.config import MemberConfig
from trainers.results import Curve, Evaluation, MemberResult, Progress, Reporter
from trainers.train import train

__all__ = ["Checkpoints", "Curve", "Evaluation", "MemberConfig", "MemberResult", "Progress", "Reporter", "train"]
