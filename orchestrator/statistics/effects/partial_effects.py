"""Compute the effect of each drawn hyperparameter with the others held fixed, by least squares on ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan
from typing import Any

import numpy as np
from scipy import stats

from orchestrator.statistics.effects.design import Design
from orchestrator.statistics.effects.rank_effects import (
    ScoresByConfig,
    ValuesByConfig,
    group_scores,
    is_failed,
    is_numeric,
    label_value,
    list_hyperparameters,
    score_units,
)
from orchestrator.statistics.intervals import LEVEL, describe_too_few
from orchestrator.statistics.quartiles import Floats
from orchestrator.text.wording import format_count

MIN_RESIDUALS = 4  # residual degrees of freedom that a fit needs for the coverage of its intervals

Column = tuple[str, str]  # a key and one of its values, or "" for a numeric key


@dataclass(frozen=True, kw_only=True)
class Slope:
    """The coefficient of a column in the fit, with its interval and p, in standard deviations of the score's rank.

    For a numeric key `value` is "" and the coefficient is per standard deviation of its rank; for a category it is the
    difference from the first category.
    """

    value: str
    coefficient: float
    low: float
    high: float
    p: float


@dataclass(frozen=True, kw_only=True)
class PartialEffect:
    """The slopes of a key over `n` units: one for a numeric key, or one for each category except the first.

    If there are no slopes, `reason` says why.
    """

    slopes: tuple[Slope, ...] = ()
    n: int
    reason: str | None = None


def compute_partial_effects(
    values_by_config: ValuesByConfig, scores: ScoresByConfig, design: Design | None = None
) -> dict[str, PartialEffect]:
    """Return the effect of each hyperparameter with the other drawn ones held fixed, by its key.

    The observations are the units of the design that have a score and every drawn hyperparameter; see
    `compute_effects`.
    """
    design = design or Design.random(values_by_config)

    # Keys compared within units do not vary between them, and a regression needs a value of every key.
    names = list_hyperparameters(values_by_config)
    reasons = {name: f"compared within {design.unit}" for name in names if design.compares_within_units(name)}
    drawn_names = [name for name in names if name not in reasons]
    scored = {
        config_id: values
        for config_id, values in values_by_config.items()
        if config_id in scores and not is_failed(scores[config_id])
    }
    common_names = [name for name in drawn_names if all(name in values for values in scored.values())]
    reasons |= {name: "missing in some configurations" for name in drawn_names if name not in common_names}

    # One regression over all columns holds the other keys fixed.
    sample = score_units(scored, scores, design) if drawn_names else []
    if len(sample) < 2:  # every column would be constant
        reasons |= dict.fromkeys(common_names, describe_too_few(len(sample), design.unit))
        common_names = []
    columns: dict[Column, Floats] = {}
    for name in common_names:
        key_columns = _make_columns([scored[config_id][name] for config_id, _ in sample])
        if not key_columns:
            reasons[name] = "constant"
        columns |= {(name, value): column for value, column in key_columns.items()}

    # Alone, the slope of a number is its rank correlation, which has an interval that assumes less.
    if [value for _, value in columns] == [""]:
        reasons |= {name: "no other hyperparameter was drawn" for name, _ in columns}
        columns = {}
    response = _standardize_ranks(np.array([score for _, score in sample], dtype=np.float64))
    slopes, problem = _fit_slopes(response, columns, design.unit)

    # Standard errors assume independent units; the coefficients themselves do not.
    if not design.units_are_independent:
        slopes = {
            key: [replace(slope, low=nan, high=nan, p=nan) for slope in key_slopes]
            for key, key_slopes in slopes.items()
        }
    return {
        name: PartialEffect(slopes=tuple(slopes.get(name, ())), n=len(sample), reason=reasons.get(name, problem))
        for name in names
    }


def _fit_slopes(
    response: Floats, columns: Mapping[Column, Floats], unit: str
) -> tuple[dict[str, list[Slope]], str | None]:
    """Return the slopes of each key, or no slopes and the reason."""
    # Intervals of too few observations lack coverage, and collinear columns have no unique coefficients.
    n, k = len(response), len(columns)
    if not k:
        return {}, None
    if not response.any():
        return {}, "the score is constant"
    if n < k + 1 + MIN_RESIDUALS:
        return (
            {},
            f"{describe_too_few(n, unit)} for {format_count(k, 'effect')} at once (at least {k + 1 + MIN_RESIDUALS})",
        )
    predictors = np.column_stack([np.ones(n), *columns.values()])
    if np.linalg.matrix_rank(predictors) < k + 1:
        return {}, "hyperparameters are collinear: effects cannot be separated"
    coefficients, lows, highs, p_values, residual_sum = fit_least_squares(response, predictors)
    if residual_sum < 1e-9 * n:
        return {}, "exact fit: no residual error to estimate"

    # The first row is the intercept, which no report shows.
    numbers = np.column_stack([coefficients, lows, highs, p_values])[1:].tolist()
    slopes: dict[str, list[Slope]] = {}
    for (key, value), (coefficient, low, high, p) in zip(columns, numbers, strict=True):
        slopes.setdefault(key, []).append(Slope(value=value, coefficient=coefficient, low=low, high=high, p=p))
    return slopes, None


def fit_least_squares(response: Floats, predictors: Floats) -> tuple[Floats, Floats, Floats, Floats, float]:
    """Return coefficients, lower and upper ends of intervals, p-values (each (k,)), and the residual sum of squares.

    `response` is (n,), `predictors` (n, k) of rank k < n. Intervals and p-values are Student's with n - k degrees of
    freedom.
    """
    # The pseudoinverse gives the coefficients and, below, their variances.
    n, k = predictors.shape
    inverse = np.linalg.pinv(predictors)
    coefficients = inverse @ response
    residual_sum = float(((response - predictors @ coefficients) ** 2).sum())

    # The variance of a coefficient is the residual variance times the squared norm of its row of the inverse.
    errors = np.sqrt(residual_sum / (n - k) * (inverse**2).sum(axis=1))
    width = float(stats.t.ppf((1 + LEVEL) / 2, n - k)) * errors
    p_values = 2 * stats.t.sf(abs(coefficients) / np.where(errors > 0, errors, np.nan), n - k)
    return coefficients, coefficients - width, coefficients + width, np.asarray(p_values), residual_sum


def _make_columns(values: Sequence[Any]) -> dict[str, Floats]:
    """Return the columns of a key: its ranks, or an indicator of each value but the first; empty if constant."""
    labels = [label_value(value) for value in values]
    if len(set(labels)) < 2:
        return {}

    # The first category is the reference: an indicator of every category would add up to the intercept.
    if is_numeric(values):
        return {"": _standardize_ranks(np.array(values, dtype=np.float64))}
    distinct_labels = list(group_scores(values, np.zeros(len(values))))
    return {value: np.array([label == value for label in labels], dtype=np.float64) for value in distinct_labels[1:]}


def _standardize_ranks(values: Floats) -> Floats:
    """Return the ranks of values with mean 0 and standard deviation 1; zeros if all values are equal."""
    if len(np.unique(values)) < 2:
        return np.zeros(len(values))
    ranks = np.asarray(stats.rankdata(values))
    return np.asarray((ranks - ranks.mean()) / ranks.std())
