"""Compute the importance of each hyperparameter for the score by Optuna's fANOVA."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from orchestrator.statistics.effects.design import Design
from orchestrator.statistics.effects.rank_effects import (
    ScoresByConfig,
    ValuesByConfig,
    is_failed,
    is_numeric,
    label_value,
    list_hyperparameters,
)
from orchestrator.statistics.intervals import describe_too_few
from orchestrator.text.wording import format_count

MIN_CONFIGURATIONS, MIN_PER_HYPERPARAMETER = 20, 8


@dataclass(frozen=True, kw_only=True)
class Importance:
    """The `share` of one hyperparameter, from `n` configurations or draws; NaN if there is a `reason`."""

    share: float
    n: int
    reason: str | None


def compute_importances(
    values_by_config: ValuesByConfig, scores: ScoresByConfig, design: Design | None = None
) -> dict[str, Importance]:
    """Return the fANOVA importance of each hyperparameter by its key.

    A random forest predicts the ranks of scores from the ranks of values; the importance is the share of its variance
    that one hyperparameter explains alone. Shares add up to 1 even if nothing has an effect: with 40 configurations
    and five hyperparameters without effect, the largest share was 0.26 (mean of eight samples). With fewer than 20
    configurations, or 8 per hyperparameter, a hyperparameter without effect is often first, so the share is NaN with a
    `reason`. If each draw was tried at several grid points (`design`), n counts draws.
    """
    # Failed configurations have no rank that a forest could predict.
    names = list_hyperparameters(values_by_config)
    scored = [config_id for config_id in values_by_config if config_id in scores and not is_failed(scores[config_id])]
    values = {
        name: [values_by_config[config_id][name] for config_id in scored if name in values_by_config[config_id]]
        for name in names
    }
    labels = {name: [label_value(value) for value in values[name]] for name in names}

    # The forest needs a value of every hyperparameter in every configuration, and a constant one explains nothing.
    reasons: dict[str, str] = {}
    for name in names:
        if len(values[name]) < len(scored):
            reasons[name] = "missing in some configurations"
        elif len(set(labels[name])) < 2:
            reasons[name] = "constant"

    # Configurations of one draw share their drawn values, so with a grid only draws count as observations.
    used_names = [name for name in names if name not in reasons]
    by_draw = design is not None and design.kind == "grid_by_random"
    n = len({design.draws[config_id] for config_id in scored}) if design and by_draw else len(scored)
    units = "draws" if by_draw else "configurations"
    minimum = max(MIN_CONFIGURATIONS, MIN_PER_HYPERPARAMETER * len(used_names))
    response = stats.rankdata(np.array([scores[config_id] for config_id in scored], dtype=np.float64))
    problem = None
    if n < minimum:
        count = format_count(len(used_names), "hyperparameter")
        problem = f"{describe_too_few(n, units)} for the importance of {count} (at least {minimum})"
    elif len(used_names) < 2:
        problem = "no other hyperparameter varies"
    elif len(np.unique(response)) < 2:
        problem = "the score is constant"

    # Ranks make the result independent of the scale of numbers and scores; categories stay labels.
    columns = {
        name: (stats.rankdata(values[name]) / len(scored)).tolist() if is_numeric(values[name]) else labels[name]
        for name in used_names
    }
    shares = _compute_fanova(columns, response.tolist()) if problem is None else {}
    return {
        name: Importance(share=shares.get(name, math.nan), n=n, reason=reasons.get(name, problem)) for name in names
    }


def _compute_fanova(columns: Mapping[str, list[Any]], response: list[float]) -> dict[str, float]:
    """Return the share of each column by Optuna's fANOVA; columns have floats in [0, 1] or labels."""
    import optuna  # a second to import with its forests, needed for reports only
    from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
    from optuna.importance import FanovaImportanceEvaluator, get_param_importances

    distributions: dict[str, BaseDistribution] = {
        name: FloatDistribution(0.0, 1.0)
        if isinstance(column[0], float)
        else CategoricalDistribution(tuple(dict.fromkeys(column)))
        for name, column in columns.items()
    }

    # Optuna evaluates studies only, so each configuration becomes a finished trial of an empty study.
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study()
    for index, value in enumerate(response):
        params = {name: column[index] for name, column in columns.items()}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=distributions, value=value))
    shares = get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0))
    return {name: float(shares[name]) for name in columns}
