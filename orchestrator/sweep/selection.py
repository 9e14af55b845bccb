"""Select configurations for a command: the best by the objective (--top), or named ones (--configuration)."""

import math
from collections.abc import Collection, Sequence

from orchestrator.errors import UserError
from orchestrator.record.state.labels import find_configuration
from orchestrator.record.state.state import SweepState
from orchestrator.results.summary import ConfigurationResult, Summary
from orchestrator.text.wording import format_command, format_label


def refuse_top_and_configurations(top: int | None, labels: Sequence[str], purpose: str) -> None:
    """Raise UserError if both options are given; `purpose` completes the message, such as "are confirmed"."""
    if top is not None and labels:
        raise UserError(f"--top and --configuration both select the configurations that {purpose}; give only one")


def refuse_unfinished(summary: Summary, subject: str, alternative: str = "") -> None:
    """Raise UserError if a sweep is not finished, because its ranking may change."""
    if not summary.has_ended:
        raise UserError(
            f"{subject}: not finished ({summary.complete_configurations} of {summary.planned_configurations} "
            f"configurations), so its ranking may change; to finish it: {format_command('resume', summary.folder)}"
            + (f"\n{alternative}" if alternative else "")
        )


def choose_rows(
    summary: Summary, state: SweepState, top: int, labels: Sequence[str], eligible_ids: Collection[str] | None = None
) -> list[ConfigurationResult]:
    """Return the rows of the configurations with these labels, or without labels the first `top` rows.

    Raises what `choose_labelled_rows` and `choose_best_rows` raise.
    """
    return (
        choose_labelled_rows(summary, state, labels, eligible_ids)
        if labels
        else choose_best_rows(summary, top, eligible_ids)
    )


def choose_best_rows(
    summary: Summary, top: int, eligible_ids: Collection[str] | None = None
) -> list[ConfigurationResult]:
    """Return the first `top` rows by the objective, of `eligible_ids`, by default those with a finite score.

    Raises UserError if there are fewer, or if a race is not over.
    """
    # Configurations of an unfinished race have different numbers of seeds, so their scores cannot be ranked.
    if summary.race is not None and not summary.race.has_ended:
        raise UserError(
            f"--top {top}: no ranking yet, because the race of {summary.name} is not over; resume it, or select "
            "configurations with --configuration"
        )

    # A refusal accounts for every configuration that cannot be chosen.
    rows = [row for row in summary.rows if is_eligible(row, eligible_ids)]
    allowed = f"a number from 1 to {len(rows)}" if rows else "none, because no configuration succeeded"
    if top < 1:
        raise UserError(f"--top {top} is not a number of configurations; allowed: {allowed}")
    if top > len(rows):
        ended_rows = [row for row in summary.rows if row.is_complete and row not in rows]
        counts = {
            "failed": sum(row.why_unranked == "failed" for row in ended_rows),
            "have no finite score": sum(row.why_unranked != "failed" for row in ended_rows),
            "were pruned": (pruned := sum(row.pruned_at is not None for row in summary.rows)),
            "have not ended": summary.planned_configurations - summary.complete_configurations - pruned,
        }
        reasons = ", ".join(f"{count} {reason}" for reason, count in counts.items() if count) or "there are no more"
        raise UserError(
            f"--top {top}: {len(rows)} configurations of {summary.name} succeeded ({reasons}); allowed: {allowed}"
        )
    return rows[:top]


def choose_labelled_rows(
    summary: Summary, state: SweepState, labels: Sequence[str], eligible_ids: Collection[str] | None = None
) -> list[ConfigurationResult]:
    """Return the rows of these configurations, best first.

    Raises UserError for a configuration that is not in `eligible_ids`, by default for one without a finite score.
    """
    label_by_id = {find_configuration(state, label).config_id: label for label in labels}
    for row in summary.rows:
        if row.config_id in label_by_id and not is_eligible(row, eligible_ids):
            reason = row.why_incomplete if not row.is_complete else "has no finite score"
            reason = "failed" if row.why_unranked == "failed" else reason
            raise UserError(
                f"--configuration {label_by_id[row.config_id]}: {format_label(row.number)} {reason}; "
                "allowed: configurations that succeeded"
            )
    return [row for row in summary.rows if row.config_id in label_by_id]


def is_eligible(row: ConfigurationResult, eligible_ids: Collection[str] | None = None) -> bool:
    """Return whether a row is among `eligible_ids`, by default whether it has a finite score."""
    if eligible_ids is not None:
        return row.config_id in eligible_ids
    return row.rank is not None and row.score is not None and math.isfinite(row.score)
