"""Write the sentences that compare the first configuration with the next."""

import itertools
import math
from collections.abc import Sequence

from orchestrator.record.state.lineage import IMPORTED, can_add_seeds, name_confirmation
from orchestrator.report.tables.seed_comparison_table import describe_failed_pairs, describe_verdict
from orchestrator.results.comparing.seed_comparisons import FIRST_TWO, SeedComparison, Side, compare_at_first_group
from orchestrator.results.selection_bias import is_biased
from orchestrator.results.summary import ConfigurationResult, Summary
from orchestrator.text.wording import format_command, format_label

MAX_CONFIRMED = 3  # configurations of the command to confirm
ENOUGH_SEEDS = 10  # an interval takes 6; with 10 one seed may differ, and a band has up to 25 lengths


def describe_lead(summary: Summary) -> list[str]:
    """Return sentences that compare the first configuration with the next over their seeds; empty for ties.

    The last has a command if seeds are too few, or if they also chose the first.
    """
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
    confirm = make_confirm_command(summary) if is_favoured and summary.has_ended else ""
    advice = "; run confirm" if confirm else ""
    caveat = f", on the seeds that ranked {leader} first (biased{advice})" if is_favoured else ""
    verdict = describe_verdict(comparison, leader, rival, with_metric=False, is_favoured=is_favoured)
    lead = f"Against the next{caveat}: {verdict[0].lower()}{verdict[1:]}"
    return [lead, f"On fresh seeds: {confirm}"] if confirm else [lead]


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


def make_confirm_command(summary: Summary) -> str:
    """Return the command that confirms the best configurations, with a name that no sweep beside it has.

    Empty without a finite score, and for imported results.
    """
    scores = [row.score for row in summary.rows if row.rank is not None and row.score is not None]
    top = min(MAX_CONFIRMED, sum(map(math.isfinite, scores)))
    if not top or IMPORTED in summary.state.provenance:
        return ""
    command = f"{format_command('confirm', summary.folder)} --top {top} --seeds {ENOUGH_SEEDS}"
    names = (name_confirmation(summary.name, number) for number in itertools.count(1))
    name = next(name for name in names if not (summary.folder.parent / name).exists())
    return command if name == name_confirmation(summary.name) else f"{command} --name {name}"
