"""The trend of an outcome along a hyperparameter: medians and quartiles in bins of about equal count."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.statistics.quartiles import quartiles

PER_BIN, MOST_BINS = 5, 8


@dataclass(frozen=True, kw_only=True)
class Bin:
    """`n` neighbouring values: their median, and median and quartiles of the outcome (infinite with many failures)."""

    x: float
    q25: float
    median: float
    q75: float
    n: int


def binned_medians(x: Sequence[float], y: Sequence[float], worst: float = np.inf) -> list[Bin]:
    """Return bins of PER_BIN pairs or more on average, ascending; none if there are not enough pairs for two bins.

    Equal values share a bin. NaN outcomes are left out.
    """
    pairs = np.array([(a, b) for a, b in zip(x, y, strict=True) if not np.isnan(b)], dtype=np.float64).reshape(-1, 2)
    bins = min(MOST_BINS, len(pairs) // PER_BIN)
    if bins < 2:
        return []
    values, inverse, counts = np.unique(pairs[:, 0], return_inverse=True, return_counts=True)
    middle = counts.cumsum() - counts / 2
    bin_of_pair = np.minimum((middle / len(pairs) * bins).astype(np.int64), bins - 1)[inverse]
    points = []
    for number in np.unique(bin_of_pair):
        inside = pairs[bin_of_pair == number]
        q25, median, q75 = quartiles(inside[:, 1], worst)
        points.append(Bin(x=float(np.median(inside[:, 0])), q25=q25, median=median, q75=q75, n=len(inside)))
    return points if len(values) > 1 else []
