"""Compute effects and order agreement of a summary on demand, once for each summary."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from orchestrator.record.state.lineage import CONFIRMS
from orchestrator.results.outcomes import (
    outcomes_at_test_lengths,
    searched_values,
    shared_seed_values,
)
from orchestrator.results.scoring.objective import seed_statistic
from orchestrator.results.summary import REMEMBERED, Summary
from orchestrator.statistics.effects.design import Design
from orchestrator.statistics.effects.importance import Importance, importances
from orchestrator.statistics.effects.partial_effects import PartialEffect, partial_effects
from orchestrator.statistics.effects.rank_effects import KeyEffect, effects
from orchestrator.statistics.failed_seeds import failed_seed_value, score_seeds
from orchestrator.statistics.intervals import Estimate, spearman
from orchestrator.statistics.quartiles import Floats

DEPENDENT = {
    "grid_by_random": "configurations that share a draw are not independent",
    "fixed": "the configurations were not drawn",
    "adaptive": "later configurations follow earlier scores",
    "survivors": "rungs pruned the other configurations by their scores",
}  # why configurations are not independent, by the kind of the design, or `survivors`


@dataclass(frozen=True, kw_only=True)
class Effect(KeyEffect):
    """The effect of a searched key: alone, with the other drawn keys held fixed (`partial`), and its importance."""

    partial: PartialEffect
    importance: Importance


@dataclass(frozen=True, kw_only=True)
class OrderAgreement:
    """The rank `correlation` of score and test median, and which configurations beat the first at the test lengths.

    `better` has config_id and gain of each of the `others` with a better test median than the first configuration, the
    largest gain first (infinite if the first has no finite median).
    """

    correlation: Estimate
    others: int
    better: tuple[tuple[str, float], ...]


def shows_effects(summary: Summary) -> bool:
    """Return whether effects are meaningful; False for a confirmation, whose configurations were selected by score."""
    return _has_search(summary) and why_no_effects(summary) is None


def why_no_effects(summary: Summary) -> str | None:
    """Return a sentence on why a search shows no effects; None if it shows them or nothing was searched."""
    scores = [row.score for row in summary.rows if row.complete and row.score is not None]
    if not _has_search(summary) or not scores:
        return None
    if not any(map(math.isfinite, scores)):
        return "No configuration has a finite score, so effects of hyperparameters are not shown."
    if len(set(scores)) == 1:
        return f"All {len(scores)} configurations have the same score, so effects of hyperparameters are not shown."
    return None


def _has_search(summary: Summary) -> bool:
    return bool(summary.searched) and summary.configurations_finished > 1 and CONFIRMS not in summary.state.provenance


@lru_cache(REMEMBERED)
def effects_on_score(summary: Summary) -> tuple[Effect, ...]:
    """Return the effect of every searched key on the score, which is at the selection lengths."""
    scores = {row.config_id: row.score for row in summary.rows if row.complete}
    objective = summary.objective
    return _effects_at(summary, objective.lengths, objective.reduce, scores, seed_statistic(objective))


@lru_cache(REMEMBERED)
def effects_at_test_lengths(summary: Summary) -> tuple[Effect, ...]:
    """Return the effect of every searched key at the test lengths, used for neither training nor selection."""
    if not summary.test_lengths:
        return ()
    outcomes = {config_id: outcome.median for config_id, outcome in outcomes_at_test_lengths(summary).items()}
    return _effects_at(summary, summary.test_lengths, "mean", outcomes)


def _effects_at(
    summary: Summary,
    lengths: Sequence[int],
    how: str,
    outcomes: Mapping[str, float | None],
    statistic: Callable[[Floats], float] | None = None,
) -> tuple[Effect, ...]:
    """Return the effect of every searched key on the `outcomes` by config_id.

    If configurations have unequal seeds, outcomes are computed again over the common seeds. Failed seeds count as
    `objective.failed_seeds` says.
    """
    policy, direction = summary.objective.failed_seeds, summary.objective.direction
    values, design, of_seeds = searched_values(summary), summary.design, shared_seed_values(summary, lengths, how)
    if summary.has_unequal_seeds:
        outcomes = {
            name: score_seeds(seed_values.values(), policy, direction, statistic).score
            for name, seed_values in of_seeds.items()
        }
    as_failed = failed_seed_value(policy, direction)
    members = {
        name: {seed: as_failed if math.isnan(value) else value for seed, value in seed_values.items()}
        for name, seed_values in of_seeds.items()
    }
    importance, partial = importances(values, outcomes, design), partial_effects(values, outcomes, design)
    return tuple(
        Effect(**vars(effect), partial=partial[effect.key], importance=importance[effect.key])
        for effect in effects(values, outcomes, design, members)
    )


@lru_cache(REMEMBERED)
def compare_orders(summary: Summary) -> OrderAgreement | None:
    """Compare the orders at selection and test lengths; None without test lengths or a second configuration."""
    ranked = {row.config_id: row.score for row in summary.rows if row.rank is not None and row.score is not None}
    test = {
        config_id: outcome.median
        for config_id, outcome in outcomes_at_test_lengths(summary).items()
        if config_id in ranked
    }
    return order_agreement(ranked, test, summary.objective.direction, summary.design) if len(test) > 1 else None


def order_agreement(
    scores: Mapping[str, float], test: Mapping[str, float], direction: str, design: Design
) -> OrderAgreement:
    """Compare test medians with scores, both by config_id; the first key of `scores` is the configuration ranked first.

    Configurations without a test median are left out. The correlation has an interval only if configurations were
    drawn independently.
    """
    names = [name for name in scores if name in test]
    first, sign = test[names[0]], 1.0 if direction == "minimize" else -1.0
    first = sign * math.inf if math.isnan(first) else first
    gains = {name: sign * (first - test[name]) for name in names[1:] if sign * test[name] < sign * first}
    correlation = spearman([scores[name] for name in names], [test[name] for name in names], "configurations")
    if not math.isnan(correlation.low) and (why := DEPENDENT.get("survivors" if design.survivors else design.kind)):
        correlation = replace(correlation, low=math.nan, high=math.nan, reason=why)
    return OrderAgreement(
        correlation=correlation,
        others=len(names) - 1,
        better=tuple(sorted(gains.items(), key=lambda item: -item[1])),
    )
