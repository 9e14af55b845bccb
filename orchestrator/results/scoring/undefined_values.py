"""Explain missing scores by the NaN of the judged metric in members that did not fail."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from orchestrator.record.state.entities import ConfigurationState
from orchestrator.record.state.state import SweepState
from orchestrator.results.scoring.configuration_scores import mask_judged_rows
from orchestrator.text.wording import format_count, format_lengths, format_metric, format_ranges
from search_spaces import Objective

if TYPE_CHECKING:
    import pandas as pd  # slow to import


@dataclass(frozen=True)
class UndefinedValues:
    """Sentences on NaN in the judged metric: a warning if a length has no value at all, else a note."""

    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def describe_undefined_values(state: SweepState, chosen_curves: pd.DataFrame, objective: Objective) -> UndefinedValues:
    """Return sentences on the lengths and members with NaN in the judged metric; none without NaN.

    `chosen_curves` are at the judged evaluation. Only members that ended without failing are counted.
    """
    # NaN of a failed member has a known reason; NaN of a member that ended well must be explained.
    ended_members = {
        (config_id, seed)
        for config_id, configuration in state.configurations.items()
        for seed, member in configuration.members.items()
        if member.status == "complete"
    }
    is_missing = mask_judged_rows(chosen_curves, objective) & chosen_curves["value"].isna()
    missing_values = chosen_curves.loc[is_missing, ["config_id", "seed", "length"]].itertuples(index=False, name=None)
    member_counts = Counter(
        int(length) for config_id, seed, length in missing_values if (str(config_id), int(seed)) in ended_members
    )

    # A length without any value is a mistake in the file or the script, so the first line of a report names it.
    metric = format_metric(objective.metric, objective.average)
    unmeasured = [length for length, count in member_counts.items() if count == len(ended_members)]
    warnings = []
    if unmeasured:
        lengths_text = format_lengths(sorted(unmeasured))
        warnings.append(f"{metric} has no value at {lengths_text}: it was NaN, or not reported, in every seed")

    # Usually many lengths have the same count, and are written as a range.
    lengths_by_count: dict[int, list[int]] = {}
    for length, count in sorted(member_counts.items()):
        if length not in unmeasured:
            lengths_by_count.setdefault(count, []).append(length)
    parts = [
        f"at length{'s' * (len(lengths) > 1)} {format_ranges(lengths)} in {count} of "
        f"{format_count(len(ended_members), 'member')}"
        for count, lengths in lengths_by_count.items()
    ]
    notes = [
        f"{metric} has no value {', '.join(parts)} that ended without an error: it was NaN, or not reported; at these "
        "lengths they count as failed seeds"
    ] * bool(parts)
    return UndefinedValues(tuple(warnings), tuple(notes))


def has_undefined_score(configuration: ConfigurationState) -> bool:
    """Return whether a score counts more failed seeds than members failed."""
    failed = sum(member.status == "failed" for member in configuration.members.values())
    return configuration.is_scored and configuration.seeds_failed > failed
