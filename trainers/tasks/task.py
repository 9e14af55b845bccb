"""What a task hands to the engine: batches, and families of metrics."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """tokens (S, B, T) int64 in; targets (S, B, T) int64, or (S, B, T, V) target distributions."""

    tokens: Tensor
    targets: Tensor

    def of(self, index_M: Tensor | None) -> "Batch":
        """The batch of each of M members: members with the same seed see the same samples."""
        return self if index_M is None else Batch(self.tokens[index_M], self.targets[index_M])


@dataclass(frozen=True)
class Family:
    """Metrics that differ in one number: the number in words, and by each of its values the metric that has it."""

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
