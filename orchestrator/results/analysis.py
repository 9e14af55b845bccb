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
from orchestrator.results.summary import CACHED_SUMMARIES, Summary
from orchestrator.statistics.effects.design import Design
from orchestrator.statistics.effects.importance import Importance, compute_importances
from orchestrator.statistics.effects.partial_effects import PartialEffect, compute_partial_effects
from orchestrator.statistics.effects.rank_effects import KeyEffect, compute_effects
from orchestrator.statistics.failed_seeds import get_failed_seed_value, score_seeds
from orchestrator.statistics.intervals import Estimate, estimate_correlation
from orchestrator.statistics.quartiles import Floats

DEPENDENCE_REASONS = {
    "grid_by_random": "configurations that share a draw are not independent",
    "fixed": "the configurations were not drawn",
    "adaptive": "later configurations depend on earlier scores",
    "survivors": "rungs pruned the other configurations by their scores",
}  # why configurations are not independent, by kind of design or "survivors"


@dataclass(frozen=True, kw_only=True)
class Effect(KeyEffect):
    """The effect of a searched key: alone, with the other drawn keys held fixed (`partial`), and its importance."""

    partial: PartialEffect
    importance: Importance


@dataclass(frozen=True, kw_only=True)
class OrderAgreement:
    """The rank `correlation` of score and test median, and the configurations that beat the first at the test lengths.

    `better` has config_id and gain of those of the `others` with a better test median than the first configuration,
    the largest gain first (infinite if the first has no finite median).
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

    # Nothing was searched, or nothing has ended.
    if not _has_search(summary) or not scores:
        return None

    # Without different finite scores nothing can be compared.
    if not any(map(math.isfinite, scores)):
        return "Effects are not shown: no configuration has a finite score."
    if len(set(scores)) == 1:
        return f"Effects are not shown: all {len(scores)} configurations have the same score."
    return None


def _has_search(summary: Summary) -> bool:
    return bool(summary.searched) and summary.configurations_finished > 1 and CONFIRMS not in summary.state.provenance


@lru_cache(CACHED_SUMMARIES)
def effects_on_score(summary: Summary) -> tuple[Effect, ...]:
    """Return the effect of every searched key on the score, at the selection lengths."""
    scores = {row.config_id: row.score for row in summary.rows if row.complete}
    objective = summary.objective
    return _effects_at(summary, objective.lengths, objective.reduce, scores, seed_statistic(objective))


@lru_cache(CACHED_SUMMARIES)
def effects_at_test_lengths(summary: Summary) -> tuple[Effect, ...]:
    """Return the effect of every searched key at the test lengths, which neither training nor selection used."""
    if not summary.test_lengths:
        return ()
    outcomes = {config_id: outcome.median for config_id, outcome in outcomes_at_test_lengths(summary).items()}
    return _effects_at(summary, summary.test_lengths, "mean", outcomes)


def _effects_at(
    summary: Summary,
    lengths: Sequence[int],
    reduce: str,
    outcomes: Mapping[str, float | None],
    statistic: Callable[[Floats], float] | None = None,
) -> tuple[Effect, ...]:
    """Return the effect of every searched key on the `outcomes` by config_id.

    If configurations have unequal seeds, outcomes are computed again over the common seeds. Failed seeds count as
    `objective.failed_seeds` says.
    """
    # Compute unequal seeds again over the common seeds.
    policy, direction = summary.objective.failed_seeds, summary.objective.direction
    values, design, seed_values = searched_values(summary), summary.design, shared_seed_values(summary, lengths, reduce)
    if summary.has_unequal_seeds:
        outcomes = {
            config_id: score_seeds(value_by_seed.values(), policy, direction, statistic).score
            for config_id, value_by_seed in seed_values.items()
        }

    # Count failed seeds as the policy says.
    penalty = get_failed_seed_value(policy, direction)
    members = {
        config_id: {seed: penalty if math.isnan(value) else value for seed, value in value_by_seed.items()}
        for config_id, value_by_seed in seed_values.items()
    }

    # Join the three analyses of each key.
    importance, partial = (
        compute_importances(values, outcomes, design),
        compute_partial_effects(values, outcomes, design),
    )
    return tuple(
        Effect(**vars(effect), partial=partial[effect.key], importance=importance[effect.key])
        for effect in compute_effects(values, outcomes, design, members)
    )


@lru_cache(CACHED_SUMMARIES)
def compare_orders(summary: Summary) -> OrderAgreement | None:
    """Compare the orders at selection and test lengths; None without test lengths or a second configuration."""
    # Only ranked configurations with a test median are compared.
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
    # Gains over the configuration ranked first, in the better direction.
    config_ids = [config_id for config_id in scores if config_id in test]
    first, sign = test[config_ids[0]], 1.0 if direction == "minimize" else -1.0
    first = sign * math.inf if math.isnan(first) else first
    gains = {name: sign * (first - test[name]) for name in config_ids[1:] if sign * test[name] < sign * first}

    # The interval of the correlation assumes independent configurations.
    score_list, test_list = [scores[name] for name in config_ids], [test[name] for name in config_ids]
    correlation = estimate_correlation(score_list, test_list, "configurations")
    if not math.isnan(correlation.low) and (
        why := DEPENDENCE_REASONS.get("survivors" if design.survivors else design.kind)
    ):
        correlation = replace(correlation, low=math.nan, high=math.nan, reason=why)
    return OrderAgreement(
        correlation=correlation,
        others=len(config_ids) - 1,
        better=tuple(sorted(gains.items(), key=lambda item: -item[1])),
    )
