"""Compute effects and order agreement of a summary on demand, once for each summary."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from orchestrator.record.state.lineage import CONFIRMS
from orchestrator.results.outcomes import (
    collect_searched_values,
    collect_shared_seed_values,
    compute_test_outcomes,
)
from orchestrator.results.scoring.configuration_scores import make_seed_statistic
from orchestrator.results.summary import CACHED_SUMMARIES, Summary
from orchestrator.statistics.effects.design import Design
from orchestrator.statistics.effects.importance import Importance, compute_importances
from orchestrator.statistics.effects.partial_effects import PartialEffect, compute_partial_effects
from orchestrator.statistics.effects.rank_effects import KeyEffect, compute_effects
from orchestrator.statistics.failed_seeds import get_failed_seed_value, get_sign, score_seeds
from orchestrator.statistics.intervals import Estimate, estimate_correlation
from orchestrator.statistics.quartiles import Floats

# Why configurations are not independent, by kind of design. "survivors" is not a kind: rungs may prune any design, and
# this reason then precedes the reason of the kind.
DEPENDENCE_REASONS = {
    "grid_by_random": "configurations that share a draw are not independent",
    "fixed": "the configurations were not drawn",
    "adaptive": "later configurations depend on earlier scores",
    "survivors": "rungs pruned the other configurations by their scores",
}


@dataclass(frozen=True, kw_only=True)
class Effect(KeyEffect):
    """The effect of a searched key: alone, with the other drawn keys held fixed (`partial`), and its importance."""

    partial: PartialEffect
    importance: Importance


@dataclass(frozen=True, kw_only=True)
class OrderAgreement:
    """The rank `correlation` of score and test median, and the configurations that beat the first at the test lengths.

    `better` has (config_id, gain) of each of the `others` with a better test median than the first configuration, the
    largest gain first. Gains are infinite if the first configuration has no finite test median.
    """

    correlation: Estimate
    others: int
    better: tuple[tuple[str, float], ...]


def shows_effects(summary: Summary) -> bool:
    """Return whether effects are meaningful; False for a confirmation, whose configurations were selected by score."""
    return _has_search(summary) and explain_missing_effects(summary) is None


def explain_missing_effects(summary: Summary) -> str | None:
    """Return a sentence on why a search shows no effects; None if it shows them or nothing was searched."""
    scores = [row.score for row in summary.rows if row.is_complete and row.score is not None]

    if not _has_search(summary) or not scores:
        return None

    # Ranks of equal or infinite scores would be shown as correlations without meaning.
    if not any(map(math.isfinite, scores)):
        return "Effects are not shown: no configuration has a finite score."
    if len(set(scores)) == 1:
        them = "both" if len(scores) == 2 else f"all {len(scores)}"
        return f"Effects are not shown: {them} configurations have the same score."
    return None


def _has_search(summary: Summary) -> bool:
    """Return whether a sweep is a search with several finished configurations; a confirmation is not a search."""
    is_confirmation = CONFIRMS in summary.state.provenance
    return bool(summary.searched) and summary.complete_configurations > 1 and not is_confirmation


@lru_cache(CACHED_SUMMARIES)
def compute_score_effects(summary: Summary) -> tuple[Effect, ...]:
    """Return the effect of every searched key on the score, at the selection lengths."""
    scores = {row.config_id: row.score for row in summary.rows if row.is_complete}
    objective = summary.objective
    return _compute_effects(summary, objective.lengths, objective.reduce, scores, make_seed_statistic(objective))


@lru_cache(CACHED_SUMMARIES)
def compute_test_effects(summary: Summary) -> tuple[Effect, ...]:
    """Return the effect of every searched key at the test lengths, which neither training nor selection used."""
    if not summary.test_lengths:
        return ()
    outcomes = {config_id: outcome.median for config_id, outcome in compute_test_outcomes(summary).items()}
    return _compute_effects(summary, summary.test_lengths, "mean", outcomes)


def _compute_effects(
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
    # After a race configurations have unequal seeds, and a median over more seeds is not comparable.
    policy = summary.objective.failed_seeds
    direction = summary.objective.direction
    values = collect_searched_values(summary)
    design = summary.design
    seed_values = collect_shared_seed_values(summary, lengths, reduce)
    if summary.has_unequal_seeds:
        outcomes = {
            config_id: score_seeds(value_by_seed.values(), policy, direction, statistic).score
            for config_id, value_by_seed in seed_values.items()
        }

    # NaN as the value of a failed seed means that failed seeds are left out.
    failed_value = get_failed_seed_value(policy, direction)
    filled_values = {
        config_id: {seed: failed_value if math.isnan(value) else value for seed, value in value_by_seed.items()}
        for config_id, value_by_seed in seed_values.items()
    }

    # The effect of a key alone can be due to another key, so it is shown beside its partial effect and importance.
    importance = compute_importances(values, outcomes, design)
    partial = compute_partial_effects(values, outcomes, design)
    return tuple(
        Effect(**vars(effect), partial=partial[effect.key], importance=importance[effect.key])
        for effect in compute_effects(values, outcomes, design, filled_values)
    )


@lru_cache(CACHED_SUMMARIES)
def compare_orders(summary: Summary) -> OrderAgreement | None:
    """Compare the orders at selection and test lengths; None without test lengths or a second configuration."""
    ranked = {row.config_id: row.score for row in summary.rows if row.rank is not None and row.score is not None}
    test_medians = {
        config_id: outcome.median
        for config_id, outcome in compute_test_outcomes(summary).items()
        if config_id in ranked
    }
    if len(test_medians) < 2:
        return None
    return measure_agreement(ranked, test_medians, summary.objective.direction, summary.design)


def measure_agreement(
    scores: Mapping[str, float], test_medians: Mapping[str, float], direction: str, design: Design
) -> OrderAgreement:
    """Compare test medians with scores, both by config_id; the first key of `scores` is the configuration ranked first.

    Configurations without a test median are left out, even the first one. The correlation has an interval only if
    configurations were drawn independently.
    """
    # If the test median of the first configuration is NaN, every other one is better, by an infinite gain.
    config_ids = [config_id for config_id in scores if config_id in test_medians]
    sign = get_sign(direction)
    first_median = test_medians[config_ids[0]]
    first_median = sign * math.inf if math.isnan(first_median) else first_median
    gains = {
        config_id: sign * (first_median - test_medians[config_id])
        for config_id in config_ids[1:]
        if sign * test_medians[config_id] < sign * first_median
    }

    # The interval of the correlation assumes independent configurations.
    correlation = estimate_correlation(
        [scores[config_id] for config_id in config_ids],
        [test_medians[config_id] for config_id in config_ids],
        "configurations",
    )
    reason = DEPENDENCE_REASONS.get("survivors" if design.survivors else design.kind)
    if reason and not math.isnan(correlation.low):
        correlation = replace(correlation, low=math.nan, high=math.nan, reason=reason)
    return OrderAgreement(
        correlation=correlation,
        others=len(config_ids) - 1,
        better=tuple(sorted(gains.items(), key=lambda item: -item[1])),
    )
