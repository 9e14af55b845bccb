"""When a score on the validation stream is good enough: the criterion of early stopping and of curricula."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainers.settings.fields import Settings, setting


def is_reached(values: NDArray[Any], threshold: float, direction: str) -> NDArray[np.bool_]:
    """Return where values, of any shape, equal a threshold or are better; False for NaN.

    direction: minimize or maximize.
    """
    return values >= threshold if direction == "maximize" else values <= threshold


class Criterion(Settings):
    """A metric on inputs of the validation stream, and the value at which it is good enough."""

    metric: str = setting(help="metric that decides, one of the task's or model's")
    threshold: float = setting(help="value from which on it is good enough")
    average: str = setting("raw", help="weight average that is scored: one of `averages`, or `raw`")
    samples: int = setting(500, low=1, help="validation inputs per trained length")


class Stop(Criterion):
    """Early stopping: a member stops when its metric, the mean over the trained lengths, reaches the threshold."""
