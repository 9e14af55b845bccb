"""Compute the answer to a claim from the values of seeds: an effect with its interval, and the p-value of a test."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from orchestrator.claims.arm_values import compute_seed_medians
from orchestrator.results.scoring.configuration_scores import ROUNDING
from orchestrator.statistics.intervals import MIN_FOR_MEDIAN, estimate_mean, estimate_median
from orchestrator.statistics.quartiles import Floats


@dataclass(frozen=True, kw_only=True)
class Answer:
    """An effect, its 95 % interval, and its two-sided p-value against `null`; missing numbers are NaN.

    `n` is the number of values (`unit`: seeds or configurations), `n_trained` the number of trained ones, `n_needed`
    the number that an interval needs. `reason` says why there is no interval in spite of enough values. If only a range
    of the effect is known, it goes from `least_effect` to `effect`. `detail` has further numbers as text.
    `extrapolate(n)` returns the answer for at least n seeds per arm with the same proportions of values; None if
    unknown.
    """

    effect: float = math.nan
    least_effect: float = math.nan
    low: float = math.nan
    high: float = math.nan
    p: float = math.nan
    null: float = 0.0
    n: int = 0
    n_trained: int = 0
    n_needed: int = MIN_FOR_MEDIAN
    unit: str = "seeds"
    detail: str = ""
    reason: str = ""
    extrapolate: "Callable[[int], Answer] | None" = field(default=None, compare=False)


def answer_median(values: Floats, null: float) -> Answer:
    """Return the median over seeds, its interval, and the sign test against `null` without ties."""
    values = snap_to_bounds(values, null)
    estimate = estimate_median(values, "seeds")
    p = compute_sign_p(values, null)
    return Answer(effect=estimate.value, low=estimate.low, high=estimate.high, p=p, null=null, n=estimate.n)


def answer_mean(values: Floats) -> Answer:
    """Return the mean over seeds, Student's interval and test against 0; the sign test if all values are equal."""
    # Equal values have no standard error, so the sign test decides.
    estimate = estimate_mean(values, "seeds")
    p = math.nan
    if estimate.high > estimate.low:
        p = float(stats.ttest_1samp(values, 0.0).pvalue)
    elif not math.isnan(estimate.low):
        p = compute_sign_p(values, 0.0)
    return Answer(
        effect=estimate.value, low=estimate.low, high=estimate.high, p=p, n=estimate.n, reason=estimate.reason or ""
    )


def compute_sign_p(values: Floats, null: float) -> float:
    """Return the two-sided p-value of the sign test without ties."""
    if not len(values):
        return math.nan
    # Seeds at the null value say nothing about the direction.
    above, below = int((values > null).sum()), int((values < null).sum())
    return float(stats.binomtest(above, above + below).pvalue) if above + below else 1.0


def compute_equivalence_p(values: Floats, lower: float, upper: float, saturated_share: float) -> float:
    """Return the p-value of two one-sided sign tests against the ends of the allowed range.

    The `saturated_share` of seeds with saturated pairs counts as outside.
    """
    if not len(values):
        return math.nan

    # Saturated seeds count as outside, rounded up; 1e-9 allows for the rounding of the share.
    outside = math.ceil(saturated_share * len(values) - 1e-9)
    inside_counts = (max(0, int(count) - outside) for count in ((values > lower).sum(), (values < upper).sum()))
    return max(float(stats.binomtest(int(count), len(values), 0.5, "greater").pvalue) for count in inside_counts)


def describe_saturation(share: float) -> str:
    """Return a note on the share of seeds with saturated pairs; empty without any."""
    return (
        f"{100 * share:.0f} % of the pairs at an end of the metric or unlearned, which supports no equivalence"
        if share
        else ""
    )


def snap_to_bounds(values: Floats, *bounds: float) -> Floats:
    """Return the values, but the exact bound for each value that equals it up to the rounding of float32."""
    # A curve is stored as float32, in which a value such as 0.1 is not exactly the bound of the claim.
    for bound in bounds:
        values = np.where(np.abs(values - bound) <= ROUNDING * abs(bound), bound, values)
    return values


def answer_rows(compute_answer: Callable[[Floats], Answer], rows: "pd.Series[float]") -> Answer:
    """Return the answer of the values by context and seed; failed seeds (NaN) may have any value."""
    if not rows.isna().any():
        return answer_and_extrapolate(compute_answer, compute_seed_medians(rows))

    # A failed seed may have any value, so the answer covers the lowest and the highest possible.
    lowest, highest = (compute_seed_medians(rows.fillna(end)) for end in (-math.inf, math.inf))
    return answer_and_extrapolate(
        lambda low, high: cover_answers(compute_answer(low), compute_answer(high)), lowest, highest
    )


def cover_answers(lowest: Answer, highest: Answer) -> Answer:
    """Return the answer that covers all values between the values of two answers."""
    return replace(highest, least_effect=lowest.effect, low=lowest.low, p=max(lowest.p, highest.p))


def answer_and_extrapolate(compute_answer: Callable[..., Answer], *arms: NDArray[Any]) -> Answer:
    """Return the answer, with a function that computes it again for more seeds in the same proportions."""
    return replace(
        compute_answer(*arms), extrapolate=lambda n: compute_answer(*(_repeat_values(seeds, n) for seeds in arms))
    )


def _repeat_values(values: NDArray[Any], n: int) -> NDArray[Any]:
    """Return max(n, len(values)) sorted values with the proportions of `values`.

    At a border between two values, the one farther from the median is taken.
    """
    # Cut the sample into n equal parts; the i-th value is the one in the middle of the i-th part.
    count = max(n, len(values))
    positions = (np.arange(count) + 0.5) * len(values) / count
    indices = np.where(positions < len(values) / 2, np.ceil(positions) - 1, np.floor(positions))
    return np.sort(values)[indices.astype(int)]
