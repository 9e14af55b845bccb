"""The effects of the searched hyperparameters on one outcome, from all statistics."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from orchestrator.statistics.effects.design import Design
from orchestrator.statistics.effects.importance import Importance, importances
from orchestrator.statistics.effects.partial_effects import PartialEffect, partial_effects
from orchestrator.statistics.effects.rank_effects import KeyEffect, effects


@dataclass(frozen=True, kw_only=True)
class Effect(KeyEffect):
    """The effect of one searched key: by itself, with the other drawn keys held fixed, and its fANOVA importance."""

    partial: PartialEffect
    importance: Importance


def effects_on(
    values: Mapping[str, Mapping[str, Any]],
    outcome: Mapping[str, float | None],
    design: Design,
    members: Mapping[str, Mapping[int, float]],
) -> tuple[Effect, ...]:
    """Return the effect of every key in `values` (config_id -> dotted key -> value) on an outcome by config_id.

    `members` has the outcome of every seed by config_id, NaN for one that is left out.
    """
    importance, partial = importances(values, outcome, design), partial_effects(values, outcome, design)
    return tuple(
        Effect(**vars(one), partial=partial[one.key], importance=importance[one.key])
        for one in effects(values, outcome, design, members)
    )
