"""A race over seeds as its ledger records it: the decisions of its rounds, and who is still in it.

The first round gives the first `search.racing.first` seeds to every configuration. The record `race` ends a round: its
survivors get the next seeds. A race is over when its survivors have all seeds of the sweep, or when there are none.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The end of a round: over which seeds it was decided, who survived, and which seeds these get next.

    `values` has of every configuration of the round what decided, by config_id: its median score or its rank sum
    (`by`), None if it failed. `p` is that of the test, None without one.
    """

    seeds: tuple[int, ...]
    survivors: tuple[str, ...]
    next: tuple[int, ...]
    by: str
    values: Mapping[str, float | None]
    p: float | None

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> Self:
        """Return the decision in the fields of a record of kind `race`."""
        return cls(
            seeds=tuple(fields["seeds"]),
            survivors=tuple(fields["survivors"]),
            next=tuple(fields["next"]),
            by=fields["by"],
            values=fields["values"],
            p=fields.get("p"),
        )


@dataclass(frozen=True, kw_only=True)
class Round:
    """A round: the configurations in it, the seeds that are new to them, and its decision, None while it is open."""

    contenders: tuple[str, ...]
    new_seeds: tuple[int, ...]
    decision: Decision | None

    @property
    def members(self) -> int:
        """How many members are trained in it."""
        return len(self.contenders) * len(self.new_seeds)


def is_race(specs: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the sweep with these recorded specifications is a race."""
    return bool(specs) and specs[-1].get("search", {}).get("racing") is not None


def read_common_seeds(specs: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
    """Return the seeds that every configuration gets: all of the specification, in a race those of the first round."""
    if not is_race(specs):
        return tuple(specs[-1].get("seeds", ())) if specs else ()
    return tuple(specs[0].get("seeds", ())[: specs[-1]["search"]["racing"]["first"]])


def add_decision(decisions: list[Decision], specs: Sequence[Mapping[str, Any]], fields: Mapping[str, Any]) -> Decision:
    """Add the decision in the fields of a record to those before, unless it is there; return it.

    Raises ValueError, with what is wrong, for one that the race does not have, or that differs from the one there.
    """
    decision, place = Decision.from_fields(fields), fields["round"]
    if not is_race(specs) or place > len(decisions):
        raise ValueError(f"decision of round {place + 1}, which the race does not have")
    if place == len(decisions):
        decisions.append(decision)
    if decisions[place] != decision:
        raise ValueError(f"round {place + 1} of the race is decided twice and differently")
    return decision


class Race:
    """The rounds of a race. `configurations` are the config_ids of the sweep in the order of their numbers."""

    def __init__(
        self, specs: Sequence[Mapping[str, Any]], configurations: Collection[str], decisions: Sequence[Decision]
    ) -> None:
        self._all_seeds = tuple(specs[-1].get("seeds", ())) if specs else ()
        self.rounds: list[Round] = []
        contenders, seeds = tuple(configurations), read_common_seeds(specs)
        for decision in decisions:
            self.rounds.append(Round(contenders=contenders, new_seeds=seeds, decision=decision))
            contenders, seeds = decision.survivors, decision.next
        self.rounds.append(Round(contenders=contenders, new_seeds=seeds, decision=None))

    @property
    def contenders(self) -> tuple[str, ...]:
        """The configurations of the last round."""
        return self.rounds[-1].contenders

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that the configurations of the last round have."""
        return tuple(seed for one in self.rounds for seed in one.new_seeds)

    @property
    def seeds_left(self) -> tuple[int, ...]:
        """The seeds of the sweep that no round has given yet; none if the race is over."""
        nobody_left = len(self.rounds) > 1 and not self.contenders
        return () if nobody_left else tuple(seed for seed in self._all_seeds if seed not in self.seeds)

    @property
    def is_over(self) -> bool:
        """Whether no further round follows."""
        return not self.seeds_left

    def count_rounds(self, config_id: str) -> int:
        """Return in how many rounds a configuration was."""
        return sum(config_id in one.contenders for one in self.rounds)

    @property
    def members(self) -> int:
        """How many members its rounds have, up to the last one."""
        return sum(one.members for one in self.rounds)

    @property
    def members_without(self) -> int:
        """How many members the sweep would have without a race."""
        return len(self.rounds[0].contenders) * len(self._all_seeds)
