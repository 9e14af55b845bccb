"""Write the sentences that compare the first configuration with the next."""

import math
from collections.abc import Sequence

from orchestrator.record.state.lineage import can_add_seeds
from orchestrator.report.tables.seed_comparison_table import describe_failed_pairs, describe_verdict
from orchestrator.results.comparing.seed_comparisons import FIRST_TWO, SeedComparison, Side, compare_at_first_group
from orchestrator.results.selection_bias import is_biased
from orchestrator.results.summary import ConfigurationResult, Summary
from orchestrator.text.wording import format_command, format_label

ENOUGH_SEEDS = 10  # an interval takes 6; with 10 one seed may differ, and a band has up to 25 lengths


def describe_lead(summary: Summary) -> list[str]:
    """Return sentences that compare the first configuration with the next over their seeds; empty for ties."""
    if (comparison := _compare_lead(summary)) is None:
        return []
    first, second = (summary.by_config_id[config_id] for config_id in (comparison.first, comparison.second))
    leader, rival = format_label(first.number), format_label(second.number)
    outcome = comparison.outcome

    # Too few seeds for an interval need a command for more.
    if outcome.paired and math.isnan(outcome.low) and (more_seeds := make_extend_command(summary)):
        return [
            f"Against the next, {rival}: {outcome.reason}{describe_failed_pairs(outcome)}.",
            f"More seeds: {more_seeds}",
        ]
    is_favoured = is_biased(summary, comparison)
    caveat = f", on the seeds that ranked {leader} first (biased; run confirm)" if is_favoured else ""
    verdict = describe_verdict(comparison, leader, rival, with_metric=False, is_favoured=is_favoured)
    return [f"Against the next{caveat}: {verdict[0].lower()}{verdict[1:]}"]


def describe_lead_briefly(summary: Summary) -> str:
    """Return whether the first configuration is better than the next, without numbers; empty for ties."""
    if (comparison := _compare_lead(summary)) is None:
        return ""
    verdict = "too few seeds" if math.isnan(comparison.outcome.low) else comparison.verdict
    better = "ahead, on the seeds that ranked it first" if is_biased(summary, comparison) else "better"
    words = {"first": better, "second": "worse", "equal": "no difference"}
    rival = format_label(summary.by_config_id[comparison.second].number)
    return f"Against the next, {rival}: {words.get(verdict, verdict)}."


def _compare_lead(summary: Summary) -> SeedComparison | None:
    """Return the comparison of the first configuration with the next over their seeds; None for ties."""
    rows = [row for row in summary.rows if row.is_complete and row.rank is not None]
    if not has_leader(rows):
        return None
    return compare_at_first_group(Side(summary, rows[0]), Side(summary, rows[1]), FIRST_TWO)


def has_leader(rows: Sequence[ConfigurationResult]) -> bool:
    """Return whether one of several ranked configurations is ahead of another; False if all scores are equal."""
    return any(row.score != rows[0].score for row in rows)


def make_extend_command(summary: Summary) -> str:
    """Return the command that doubles the seeds, to ENOUGH_SEEDS at least; empty if seeds cannot be added."""
    if not can_add_seeds(summary.state):
        return ""
    return f"{format_command('extend', summary.folder)} --seeds {max(ENOUGH_SEEDS, 2 * len(summary.shared_seeds))}"
