"""Effects and comparisons of a summary: computed on demand, once for each summary."""

import math
from collections.abc import Mapping
from functools import lru_cache, partial

from orchestrator.record.state.lineage import CONFIRMS
from orchestrator.results.confirmed import Confirmed
from orchestrator.results.effects.average_comparisons import Comparison, compare_averages
from orchestrator.results.effects.hyperparameter_effects import Effect, effects_on
from orchestrator.results.effects.order_agreement import OrderAgreement, order_agreement
from orchestrator.results.effects.outcomes import (
    member_scores,
    outcomes_at_test_lengths,
    outcomes_by_seed,
    outcomes_over_shared_seeds,
    searched_values,
)
from orchestrator.results.summary import REMEMBERED, Summary


def shows_effects(summary: Summary) -> bool:
    """Return whether effects of hyperparameters are meaningful; not if configurations were picked by score."""
    return _has_search(summary) and why_no_effects(summary) is None


def why_no_effects(summary: Summary) -> str | None:
    """Return why a sweep that searched shows no effects, in a sentence; None if it shows them, or did not search."""
    scores = [row.score for row in summary.rows if row.complete and row.score is not None]
    if not _has_search(summary) or not scores:
        return None
    if not any(map(math.isfinite, scores)):
        return "No configuration has a finite score, so effects of hyperparameters are not shown."
    if len(set(scores)) == 1:
        return f"All {len(scores)} configurations have the same score, so effects of hyperparameters are not shown."
    return None


def _has_search(summary: Summary) -> bool:
    return bool(summary.searched) and summary.configurations_finished > 1 and CONFIRMS not in summary.provenance


@lru_cache(REMEMBERED)
def effects_on_score(summary: Summary) -> tuple[Effect, ...]:
    """Return the effect of every searched key on the score, at the selection lengths."""
    scores: Mapping[str, float | None] = {row.config_id: row.score for row in summary.rows if row.complete}
    if summary.has_unequal_seeds:
        scores = outcomes_over_shared_seeds(summary, summary.objective.lengths, summary.objective.reduce)
    members = outcomes_by_seed(summary, summary.objective.lengths, summary.objective.reduce)
    return effects_on(searched_values(summary), scores, summary.design, members)


@lru_cache(REMEMBERED)
def effects_at_test_lengths(summary: Summary) -> tuple[Effect, ...]:
    """Return the effect of every searched key at the test lengths, used for neither training nor selection."""
    if not summary.test_lengths:
        return ()
    outcomes = {config_id: at.median for config_id, at in outcomes_at_test_lengths(summary).items()}
    if summary.has_unequal_seeds:
        outcomes = outcomes_over_shared_seeds(summary, summary.test_lengths, "mean")
    members = outcomes_by_seed(summary, summary.test_lengths, "mean")
    return effects_on(searched_values(summary), outcomes, summary.design, members)


@lru_cache(REMEMBERED)
def compare_orders(summary: Summary) -> OrderAgreement | None:
    """Compare the orders at selection and test lengths; None without test lengths or a second configuration."""
    ranked = {row.config_id: row.score for row in summary.rows if row.rank is not None and row.score is not None}
    test = {config_id: at.median for config_id, at in outcomes_at_test_lengths(summary).items() if config_id in ranked}
    return order_agreement(ranked, test, summary.objective.direction, summary.design) if len(test) > 1 else None


@lru_cache(REMEMBERED)
def compare_weight_averages(summary: Summary) -> tuple[Comparison, ...]:
    """Compare every weight average with the objective's, on the same trajectories, by group of lengths."""
    judged, scores = summary.objective, partial(member_scores, summary)
    return compare_averages(summary.averages, judged.average, judged.direction, scores, summary.design)


@lru_cache(REMEMBERED)
def read_confirmations(summary: Summary) -> tuple[Confirmed, ...]:
    """Read the confirmations of the sweep among those beside it, and its own comparison if it is a confirmation."""
    return summary.read_confirmed(summary)
