"""A family: metrics of a task that differ in one number, to be drawn against that number."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Family:
    """The number in words, and by each of its values the metric that has it."""

    label: str
    metrics: Mapping[int, str]


def families(**members: tuple[str, str, Iterable[int]]) -> dict[str, Family]:
    """Families by name from (label, stem, numbers), the metrics being called stem_number; without those that are empty.

    >>> families(cascade=("cascade length", "exact_match_cascade", (0, 2)), run=("run", "exact_match_run", ()))
    {'cascade': Family(label='cascade length', metrics={0: 'exact_match_cascade_0', 2: 'exact_match_cascade_2'})}
    """
    found = {
        name: Family(label, {number: f"{stem}_{number}" for number in numbers})
        for name, (label, stem, numbers) in members.items()
    }
    return {name: family for name, family in found.items() if family.metrics}
