"""Write the sentences on failed seeds: which configurations they make the worst, and which values they share."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from orchestrator.report.tables.configuration_tables import compute_median_of_others
from orchestrator.results.confirmation import make_label
from orchestrator.results.outcomes import get_searched_value
from orchestrator.results.seed_failures import format_steps
from orchestrator.results.summary import ConfigurationResult, Summary
from orchestrator.statistics.effects.rank_effects import is_numeric
from orchestrator.text.wording import compact_value, format_number, group_errors, join_first_few, shorten_keys
from search_spaces import ABSENT

FAILED_SEEDS = {  # by objective.failed_seeds
    "worst": "counted as worst",
    "exclude": "left out of the medians",
    "fail": "their configurations fail",
}
MAX_ERROR = 50  # characters of an error beside the number of failed seeds
_EXIT_CODE = re.compile(r"^exit code -?\d+[^:]*: ")
COUNT_BY_KIND: dict[str, Callable[[ConfigurationResult], int]] = {
    "Crashed": lambda row: row.seeds_crashed,
    "Diverged": lambda row: row.seeds_failed - row.seeds_crashed,
}
MAX_KEYS = 2  # hyperparameters named with the values that failed seeds share
MAX_CHANCE = 0.05  # of all failed seeds among the seeds with a value, if seeds failed at random


@dataclass(frozen=True)
class _Share:
    """The seeds with a value of a hyperparameter: `value` as text, how many ran, how many failed."""

    value: str
    run: int
    failed: int


def describe_failed_count(summary: Summary, *, with_error: bool = True) -> str:
    """Return the number of failed seeds with their kinds, and how the policy counts them: "3 failed (1 diverged ...)".

    `with_error` adds the most frequent error of those that crashed, and the steps at which seeds diverged.
    """
    # The exit code says nothing beside an error; all reasons are further down on the page.
    crashed = sum(row.seeds_crashed for row in summary.rows)
    diverged = summary.seeds_failed - crashed
    errors = [*group_errors((error, pack_id) for pack_id, error in summary.state.failed_packs)]
    text = _EXIT_CODE.sub("", errors[0]) if errors else ""
    reason = text if len(text) <= MAX_ERROR else f"{text[: MAX_ERROR - 3]}..."
    parts = [f"{crashed} crashed"] if crashed else []
    if crashed and reason and with_error:
        parts = [f"{crashed} crashed{', such as' if len(errors) > 1 else ':'} {reason}"]
    steps = {member.failed_at for member in summary.state.members if member.failed_at is not None}
    when = f" at {format_steps(steps)}" if with_error and steps else ""
    parts += [f"{diverged} diverged{when}"] if diverged else []
    return f"{summary.seeds_failed} failed ({'; '.join([*parts, FAILED_SEEDS[summary.objective.failed_seeds]])})"


def describe_failures(summary: Summary, max_keys: int = MAX_KEYS) -> list[str]:
    """Return sentences on the values of hyperparameters that all crashed, or all diverged, seeds share.

    They have counts alone, because seeds of one configuration are not independent.
    """
    sentences = []
    names = shorten_keys(list(summary.searched))
    for kind, count_failed in COUNT_BY_KIND.items():
        if sum(map(count_failed, summary.rows)) < 2:
            continue
        splits = [
            (names[key], *split) for key in summary.searched if (split := _split_failures(summary, key, count_failed))
        ]
        likely = sorted((inside.run, name, inside, outside) for name, inside, outside in splits)
        texts = [
            f"{inside.failed} of {inside.run} with {name} {inside.value}, 0 of {outside.run} {outside.value}"
            for _, name, inside, outside in likely[:max_keys]
        ]
        sentences += [f"{kind} seeds: {'; '.join(texts)}."] if texts else []
    return sentences


def _split_failures(
    summary: Summary, key: str, count_failed: Callable[[ConfigurationResult], int]
) -> tuple[_Share, _Share] | None:
    """Return the seeds with the values of a key at which seeds failed, and all others; None if chance may explain it.

    `count_failed` counts the failed seeds of a configuration. Numeric values are split at the lowest or the highest
    value with a failed seed.
    """
    rows = [(get_searched_value(summary, row, key), row) for row in summary.rows if row.seeds_run]
    rows = [(value, row) for value, row in rows if value is not ABSENT]
    failing = [value for value, row in rows if count_failed(row)]
    if not failing:
        return None

    # A single value, or one end of numeric values.
    low = high = failing[0]
    candidates: list[tuple[Callable[[Any], bool], str, str]] = []
    if is_numeric([value for value, _ in rows]):
        low, high = min(failing), max(failing)
        candidates.append((lambda value: value >= low, f"from {compact_value(low)}", "below"))
        candidates.append((lambda value: value <= high, f"up to {compact_value(high)}", "above"))
    if all(value == low for value in failing):
        candidates.insert(0, (lambda value: value == low, compact_value(low), "with other values"))

    # The fewest seeds with these values say most.
    shares = []
    for is_inside, inside, outside in candidates:
        run_inside = sum(row.seeds_run for value, row in rows if is_inside(value))
        run_outside = sum(row.seeds_run for value, row in rows if not is_inside(value))
        failed = sum(count_failed(row) for _, row in rows)
        if math.comb(run_inside, failed) <= MAX_CHANCE * math.comb(run_inside + run_outside, failed):
            shares.append((_Share(inside, run_inside, failed), _Share(outside, run_outside, 0)))
    return min(shares, key=lambda share: share[0].run, default=None)


def describe_lost(summary: Summary) -> list[str]:
    """Return a sentence on configurations that failed seeds alone rank as the worst; empty if there are none."""
    lost_rows = [
        row
        for row in summary.rows
        if row.seeds_failed and row.score is not None and math.isinf(row.score) and row.is_complete
    ]
    texts = []
    for row in lost_rows:
        if (median := compute_median_of_others(summary, row, summary.objective.lengths)) is not None:
            label = make_label(summary.state.provenance, row.number)
            texts.append(f"{label} ({row.seeds_failed} of {row.seeds_run}; the others reach {format_number(median)})")
    if not texts:
        return []

    # Without any finite score there is nothing to be behind.
    if not any(row.score is not None and math.isfinite(row.score) for row in summary.rows):
        return [f"Too many seeds failed for a score: {join_first_few(texts)}."]
    return [f"Last because seeds failed: {join_first_few(texts)}. Effects count them as the worst."]
