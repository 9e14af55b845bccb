"""Find the values of hyperparameters that crashed, or diverged, seeds share; needs no pandas."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from orchestrator.record.files.searched_values import find_searched_value, is_number, list_searched_keys
from orchestrator.record.state.entities import ConfigurationState, MemberState
from orchestrator.record.state.state import SweepState
from orchestrator.text.wording import compact_value, shorten_keys
from search_spaces import ABSENT

MAX_KEYS = 2  # hyperparameters named with the values that failed seeds share
MAX_CHANCE = 0.05  # of all failed seeds among the seeds with a value, if seeds failed at random
HAS_FAILED_BY_KIND: dict[str, Callable[[MemberState], bool]] = {
    "crashed": lambda member: member.has_crashed,
    "diverged": lambda member: member.status == "failed" and not member.has_crashed,
}


@dataclass(frozen=True)
class _Share:
    """The seeds with a value of a hyperparameter: `value` as text, how many ran, how many failed."""

    value: str
    run: int
    failed: int


@dataclass(frozen=True)
class _SeedCounts:
    """A configuration with the number of its seeds that ran, and that failed in one way."""

    configuration: ConfigurationState
    run: int
    failed: int


def describe_shared_values(state: SweepState, max_keys: int = MAX_KEYS) -> list[tuple[str, str]]:
    """Return rows such as ("crashed seeds", "6 of 16 with lr from 0.04, 0 of 48 below"), for at most `max_keys` keys.

    They have counts alone, because seeds of one configuration are not independent.
    """
    rows = []
    names = shorten_keys(list_searched_keys(state))
    for kind, has_failed in HAS_FAILED_BY_KIND.items():
        counts = [_count_seeds(configuration, has_failed) for configuration in state.configurations.values()]
        if sum(count.failed for count in counts) < 2:
            continue
        splits = [(name, *split) for key, name in names.items() if (split := _split_failures(state, key, counts))]
        likely = sorted((inside.run, name, inside, outside) for name, inside, outside in splits)
        texts = [
            f"{inside.failed} of {inside.run} with {name} {inside.value}, 0 of {outside.run} {outside.value}"
            for _, name, inside, outside in likely[:max_keys]
        ]
        rows += [(f"{kind} seeds", "; ".join(texts))] if texts else []
    return rows


def _count_seeds(configuration: ConfigurationState, has_failed: Callable[[MemberState], bool]) -> _SeedCounts:
    """Return how many seeds of a configuration ended, and how many of these failed."""
    ended = [member for member in configuration.members.values() if member.status in ("complete", "failed")]
    return _SeedCounts(configuration, len(ended), sum(map(has_failed, ended)))


def _split_failures(state: SweepState, key: str, counts: Iterable[_SeedCounts]) -> tuple[_Share, _Share] | None:
    """Return the seeds with the values of a key at which seeds failed, and all others; None if chance may explain it.

    Numeric values are split at the lowest or the highest value with a failed seed.
    """
    rows = [(find_searched_value(state, count.configuration, key), count) for count in counts if count.run]
    rows = [(value, count) for value, count in rows if value is not ABSENT]
    failing = [value for value, count in rows if count.failed]
    if not failing:
        return None

    # A single value, or one end of numeric values.
    low = high = failing[0]
    candidates: list[tuple[Callable[[Any], bool], str, str]] = []
    if all(is_number(value) for value, _ in rows):
        low, high = min(failing), max(failing)
        candidates.append((lambda value: value >= low, f"from {compact_value(low)}", "below"))
        candidates.append((lambda value: value <= high, f"up to {compact_value(high)}", "above"))
    if all(value == low for value in failing):
        candidates.insert(0, (lambda value: value == low, compact_value(low), "with other values"))

    # The fewest seeds with these values say most.
    shares = []
    for is_inside, inside, outside in candidates:
        run_inside = sum(count.run for value, count in rows if is_inside(value))
        run_outside = sum(count.run for value, count in rows if not is_inside(value))
        failed = sum(count.failed for _, count in rows)
        if math.comb(run_inside, failed) <= MAX_CHANCE * math.comb(run_inside + run_outside, failed):
            shares.append((_Share(inside, run_inside, failed), _Share(outside, run_outside, 0)))
    return min(shares, key=lambda share: share[0].run, default=None)
