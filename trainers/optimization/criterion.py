"""The criterion of early stopping and curricula: a threshold for a metric on the validation stream."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from trainers.settings.fields import Settings, setting


def is_reached(values: NDArray[Any], threshold: float, direction: str) -> NDArray[np.bool_]:
    """Return whether each value equals the threshold or is better; False for NaN. direction: minimize or maximize."""
    return values >= threshold if direction == "maximize" else values <= threshold


class Criterion(Settings):
    """A metric on inputs of the validation stream, and its threshold."""

    metric: str = setting(help="metric that is compared, one of the task's or model's")
    threshold: float = setting(help="value that the metric must reach")
    average: str = setting("raw", help="weight average that is scored: one of `averages`, or `raw`")
    samples: int = setting(500, low=1, help="validation inputs per trained length")

    trial_settings: ClassVar[Mapping[str, Any]] = {"metric": "accuracy", "threshold": 0.9}


class Stop(Criterion):
    """Early stopping: a member stops when its metric, the mean over the trained lengths, reaches the threshold."""
