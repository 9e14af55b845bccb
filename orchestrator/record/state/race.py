"""A race over seeds as its ledger records it: the decisions of its rounds and rungs, and who is still in it.

The first round gives the first `search.racing.first` seeds to every configuration. With `search.racing.steps` all of
its packs pause at a rung; the record `rung` prunes configurations, and the others train on. The record `race` ends a
round: its survivors get the next seeds. A race is over when its survivors have all seeds of the sweep, or when there
are none.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from typing import Any, TypeVar

from orchestrator.record.state.parts import ConfigurationState, PackState
from search_spaces import Rung, Rungs


@dataclass(frozen=True, kw_only=True)
class RoundOutcome:
    """The survivors of a round and the `values` that decided, by config_id: None for a failed configuration.

    Values are median scores or rank sums, as `by` says. `p` is that of the test, None without one.
    """

    survivors: tuple[str, ...]
    by: str
    values: Mapping[str, float | None]
    p: float | None = None


@dataclass(frozen=True, kw_only=True)
class RoundDecision(RoundOutcome):
    """The end of a round: its outcome, over which seeds it was decided, and which seeds the survivors get next."""

    seeds: tuple[int, ...]
    next: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class RungOutcome:
    """Which configurations continue after a rung. `guarded` are the survivors that only the guard has kept.

    By config_id of every configuration of the rung, None for one that failed: `values` are median scores at the rung,
    `improvements` the median over seeds of the improvement since an earlier step, `spreads` the interquartile range of
    the scores at the rung.
    """

    survivors: tuple[str, ...]
    guarded: tuple[str, ...]
    values: Mapping[str, float | None]
    improvements: Mapping[str, float | None]
    spreads: Mapping[str, float | None]


@dataclass(frozen=True, kw_only=True)
class RungDecision(RungOutcome):
    """The decision at a rung: its outcome, its step, the step `since` which improvements count, and the seeds."""

    step: int
    since: int
    seeds: tuple[int, ...]

    @property
    def pruned(self) -> tuple[str, ...]:
        """The configurations that end at this rung."""
        return tuple(name for name in self.values if name not in self.survivors)


_Kind = TypeVar("_Kind", RoundDecision, RungDecision)


@dataclass(frozen=True, kw_only=True)
class Round:
    """A round: the configurations in it, the seeds that are new to them, and its decision, None while it is open."""

    contenders: tuple[str, ...]
    new_seeds: tuple[int, ...]
    decision: RoundDecision | None

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


def add_decision(
    decisions: list[RoundDecision], specs: Sequence[Mapping[str, Any]], fields: Mapping[str, Any]
) -> RoundDecision:
    """Append the decision of a record to the earlier ones unless it is among them; return it.

    Raises ValueError for a decision outside the race, or one that contradicts a recorded decision.
    """
    decision, index = _read_decision(RoundDecision, fields), fields["round"]
    if not is_race(specs) or index > len(decisions):
        raise ValueError(f"decision of round {index + 1}, which the race does not have")
    _add_or_compare(decisions, index, decision, f"round {index + 1} of the race")
    return decision


def read_rungs(specs: Sequence[Mapping[str, Any]]) -> tuple[Rung, ...]:
    """Return the rungs of the first round; none if every configuration trains to the end."""
    steps = specs[-1]["search"]["racing"].get("steps") if is_race(specs) else None
    every, last = specs[-1].get("evaluation", {}).get("every"), specs[-1].get("training", {}).get("steps")
    if steps is None or not isinstance(every, int) or not isinstance(last, int):
        return ()
    return Rungs.model_validate(steps).rungs(every, last)


def add_rung(
    rungs: list[RungDecision],
    specs: Sequence[Mapping[str, Any]],
    configurations: Collection[str],
    fields: Mapping[str, Any],
) -> RungDecision:
    """Append the decision of a record to the earlier ones unless it is among them; return it.

    Raises ValueError for a decision outside the race, or one that contradicts a recorded decision.
    """
    decision, index, planned = _read_decision(RungDecision, fields), fields["rung"], read_rungs(specs)
    if index > len(rungs) or index >= len(planned) or (decision.step, decision.since) != planned[index]:
        raise ValueError(f"decision at step {decision.step}, which is not the next rung of the race")
    if unknown := sorted({*decision.values, *decision.survivors}.difference(configurations)):
        raise ValueError(f"decision about unknown configuration {unknown[0]}")
    _add_or_compare(rungs, index, decision, f"the rung at step {decision.step}")
    return decision


def _read_decision(kind: type[_Kind], fields: Mapping[str, Any]) -> _Kind:
    """Return the decision in the fields of a record, of which it has those with its names, and tuples for lists."""
    values: dict[str, Any] = {
        field.name: fields[field.name] for field in dataclass_fields(kind) if field.name in fields
    }
    return kind(**values | {name: tuple(value) for name, value in values.items() if isinstance(value, list)})


def _add_or_compare(decisions: list[_Kind], index: int, decision: _Kind, name: str) -> None:
    if index == len(decisions):
        decisions.append(decision)
    if decisions[index] != decision:
        raise ValueError(f"two records decide {name} differently")


def retract_empty_decision(
    decisions: list[RoundDecision],
    rungs: list[RungDecision],
    configurations: Mapping[str, ConfigurationState],
    packs: Iterable[PackState],
) -> None:
    """Undo the last decision if no configuration survived it because packs had died; it is decided again.

    Packs that a rung had ended go on.
    """
    if decisions and not decisions[-1].survivors:
        decisions.pop()
    elif rungs and not rungs[-1].survivors:
        pruned = rungs.pop().pruned
        for name in pruned:
            configurations[name].pruned_at = None
        for pack in packs:
            pack.pruned_at = {name: step for name, step in pack.pruned_at.items() if name not in pruned}
            if pack.status == "complete" and not pack.is_final and not pack.is_pruned:
                pack.reopen()


class Race:
    """The rounds of a race. `configurations` are the config_ids of the sweep in the order of their numbers.

    `rungs` are those of the first round that are decided; at `next_rung` its packs pause, None if no rung is left.
    """

    def __init__(
        self,
        specs: Sequence[Mapping[str, Any]],
        configurations: Collection[str],
        decisions: Sequence[RoundDecision],
        rungs: Sequence[RungDecision],
    ) -> None:
        self._all_seeds = tuple(specs[-1].get("seeds", ()))
        self._steps = specs[-1].get("training", {}).get("steps", 0)
        self.rungs = tuple(rungs)
        remaining = read_rungs(specs)[len(rungs) :] if not rungs or rungs[-1].survivors else ()
        self.next_rung: Rung | None = next(iter(remaining), None)
        self.rounds: list[Round] = []
        contenders, seeds = tuple(configurations), read_common_seeds(specs)
        for decision in decisions:
            self.rounds.append(Round(contenders=contenders, new_seeds=seeds, decision=decision))
            contenders, seeds = decision.survivors, decision.next
        self.rounds.append(Round(contenders=contenders, new_seeds=seeds, decision=None))

    @property
    def contenders(self) -> tuple[str, ...]:
        """The configurations of the last round that are not pruned."""
        first = self.rungs and len(self.rounds) == 1
        return self.rungs[-1].survivors if first else self.rounds[-1].contenders

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds that the configurations of the last round have."""
        return tuple(seed for round_ in self.rounds for seed in round_.new_seeds)

    @property
    def seeds_left(self) -> tuple[int, ...]:
        """The seeds of the sweep that no round has given yet; none if the race is over."""
        nobody_left = (len(self.rounds) > 1 or self.rungs) and not self.contenders
        return () if nobody_left else tuple(seed for seed in self._all_seeds if seed not in self.seeds)

    @property
    def is_over(self) -> bool:
        """Whether no further round and no further rung follows."""
        return not self.seeds_left and self.next_rung is None

    def count_rounds(self, config_id: str) -> int:
        """Return the number of rounds that a configuration was in."""
        return sum(config_id in round_.contenders for round_ in self.rounds)

    @property
    def members(self) -> int:
        """Return the number of members in all rounds so far."""
        return sum(round_.members for round_ in self.rounds)

    @property
    def members_without(self) -> int:
        """Return the number of members that the sweep would have without a race."""
        return len(self.rounds[0].contenders) * len(self._all_seeds)

    @property
    def member_steps_of_first_round(self) -> int:
        """Return the member-steps of the first round if it had no rungs."""
        return self.rounds[0].members * self._steps

    @property
    def member_steps_saved(self) -> int:
        """The member-steps that its pruned configurations were not trained."""
        seeds = len(self.rounds[0].new_seeds)
        return sum(seeds * len(rung.pruned) * (self._steps - rung.step) for rung in self.rungs)
