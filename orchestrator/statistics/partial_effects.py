"""The effect of each drawn hyperparameter on the score with the other ones held fixed: least squares on ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from orchestrator.statistics.design import Design
from orchestrator.statistics.effects import (
    Scores,
    Values,
    groups_of,
    hyperparameters,
    is_failed,
    is_numeric,
    per_unit,
    value_label,
)
from orchestrator.statistics.intervals import LEVEL
from orchestrator.statistics.quartiles import Floats

PARTIAL_COLUMNS = ("hyperparameter", "value", "coefficient", "low", "high", "p", "n", "r_squared", "reason")
LEFT_OVER = 4  # observations beyond the effects of a fit: with fewer its intervals cover too seldom


def partial_effects(
    values_by_config: Values, scores: Scores, design: Design | None = None, *, level: float = LEVEL
) -> pd.DataFrame:
    """Return the effect of each drawn hyperparameter with the others held fixed: least squares on standardised ranks.

    The observations are the units of the design, as in `effects`: those with a score and every drawn hyperparameter. A
    numeric hyperparameter gives one row (`value` is ""), a categorical one a row for each value but its first, against
    that first one. Columns: PARTIAL_COLUMNS; coefficients are in standard deviations of the score's rank per standard
    deviation of the hyperparameter's rank (per change of value). Rows without numbers say why in `reason`.
    """
    design = design or Design.random(values_by_config)
    names = hyperparameters(values_by_config)
    reasons = {name: f"it is compared within {design.unit}" for name in names if design.compared(name)}
    drawn = [name for name in names if name not in reasons]
    scored = {c: v for c, v in values_by_config.items() if c in scores and not is_failed(scores[c])}
    everywhere = [name for name in drawn if all(name in values for values in scored.values())]
    reasons |= {name: "some configurations do not have it" for name in drawn if name not in everywhere}
    sample = per_unit(scored, scores, design) if drawn else []
    columns: dict[tuple[str, str], Floats] = {}
    for name in everywhere:
        columns_of_it = _columns([scored[config][name] for config, _ in sample])
        if not columns_of_it:
            reasons[name] = "it is the same everywhere"
        columns |= {(name, value): column for value, column in columns_of_it.items()}
    response = _standardised(np.array([score for _, score in sample], dtype=np.float64))
    n = len(sample)
    fitted, problem = _fit(response, columns, level)
    if not design.units_are_independent:
        for numbers in fitted.values():
            numbers |= dict.fromkeys(("low", "high", "p"), math.nan)
    rows: list[dict[str, Any]] = [
        {"hyperparameter": name, "value": value, "n": n, "reason": problem, **fitted.get((name, value), {})}
        for name, value in columns
    ]
    rows += [{"hyperparameter": name, "value": "", "n": n, "reason": reason} for name, reason in reasons.items()]
    rows.sort(key=lambda row: names.index(row["hyperparameter"]))
    frame = pd.DataFrame(rows, columns=list(PARTIAL_COLUMNS))
    return frame.astype(
        {"coefficient": float, "low": float, "high": float, "p": float, "r_squared": float, "reason": object}
    )


def _fit(
    response: Floats, columns: Mapping[tuple[str, str], Floats], level: float
) -> tuple[dict[tuple[str, str], dict[str, float]], str | None]:
    """Return coefficient, interval and p of each column, or a reason why there are none."""
    n, k = len(response), len(columns)
    if not k:
        return {}, None
    if not response.any():
        return {}, "the score is the same everywhere"
    if n < k + 1 + LEFT_OVER:
        return {}, f"n = {n} is too few for {k} effect{'' if k == 1 else 's'} at once (at least {k + 1 + LEFT_OVER})"
    design = np.column_stack([np.ones(n), *columns.values()])
    if np.linalg.matrix_rank(design) < k + 1:
        return {}, "the hyperparameters move together and cannot be told apart"
    from statsmodels.regression.linear_model import OLS  # half a second to import, needed for reports only

    fit = OLS(response, design).fit()
    if fit.ssr < 1e-9 * n:
        return {}, "the fit is exact: nothing is left over to judge it by"
    intervals = fit.conf_int(alpha=1 - level)
    return {
        column: {
            "coefficient": float(fit.params[index]),
            "low": float(intervals[index][0]),
            "high": float(intervals[index][1]),
            "p": float(fit.pvalues[index]),
            "r_squared": float(fit.rsquared),
        }
        for index, column in enumerate(columns, start=1)
    }, None


def _columns(values: Sequence[Any]) -> dict[str, Floats]:
    """Return what a hyperparameter adds to the design: its ranks, or an indicator of each value but the first."""
    labels = [value_label(value) for value in values]
    if len(set(labels)) < 2:
        return {}
    if is_numeric(values):
        return {"": _standardised(np.array(values, dtype=np.float64))}
    distinct = list(groups_of(values, np.zeros(len(values))))
    return {value: np.array([label == value for label in labels], dtype=np.float64) for value in distinct[1:]}


def _standardised(values: Floats) -> Floats:
    """Return ranks with mean 0 and standard deviation 1; zeros when all are equal."""
    if len(np.unique(values)) < 2:
        return np.zeros(len(values))
    ranks = np.asarray(stats.rankdata(values))
    return np.asarray((ranks - ranks.mean()) / ranks.std())
