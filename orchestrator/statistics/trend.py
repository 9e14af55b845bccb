"""Compute the trend of an outcome along a hyperparameter: quartiles in bins of about equal counts."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orchestrator.statistics.quartiles import compute_quartiles

MIN_PAIRS_PER_BIN, MAX_BINS = 5, 8  # pairs per bin are an average


@dataclass(frozen=True, kw_only=True)
class Bin:
    """The median `x` of `n` neighbouring values, and the quartiles of their outcomes, infinite with many failures."""

    x: float
    q25: float
    median: float
    q75: float
    n: int


def compute_binned_medians(x: Sequence[float], y: Sequence[float], worst: float = np.inf) -> list[Bin]:
    """Return ascending bins of the pairs (x, y); empty if there are too few pairs for two bins.

    Equal x share a bin. Pairs with a NaN outcome y are left out.
    """
    pairs = np.array([(a, b) for a, b in zip(x, y, strict=True) if not np.isnan(b)], dtype=np.float64).reshape(-1, 2)
    bins = min(MAX_BINS, len(pairs) // MIN_PAIRS_PER_BIN)
    if bins < 2:
        return []

    # Assign distinct x to bins by the rank of their middle pair: bins have about equal counts, and equal x share a bin.
    values, inverse, counts = np.unique(pairs[:, 0], return_inverse=True, return_counts=True)
    middle = counts.cumsum() - counts / 2
    bin_of_pair = np.minimum((middle / len(pairs) * bins).astype(np.int64), bins - 1)[inverse]

    # A bin that no distinct x falls into is missing; a single distinct x has no trend.
    summaries = []
    for number in np.unique(bin_of_pair):
        inside = pairs[bin_of_pair == number]
        q25, median, q75 = compute_quartiles(inside[:, 1], worst)
        summaries.append(Bin(x=float(np.median(inside[:, 0])), q25=q25, median=median, q75=q75, n=len(inside)))
    return summaries if len(values) > 1 else []
