"""A race over seeds as recorded: the decisions of its rounds and rungs, and the remaining configurations.

In the first round every configuration gets the first `search.racing.first` seeds. With `search.racing.steps` all packs
of this round pause at a rung; a `rung` record prunes configurations, and the others train on. A `race` record ends a
round: its survivors get the next seeds. A race is over when its survivors have all seeds of the sweep, or when no
configuration survives.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import fields as dataclass_fields
from typing import Any, TypeVar

from orchestrator.record.state.entities import ConfigurationState, PackState
from search_spaces import Rung, Rungs


@dataclass(frozen=True, kw_only=True)
class RoundOutcome:
    """The survivors of a round and the deciding `values` by config_id, None for failed configurations.

    Values are median scores or rank sums, according to `by`. `p` is the p-value of the test, None without a test.
    """

    survivors: tuple[str, ...]
    by: str
    values: Mapping[str, float | None]
    p: float | None = None


@dataclass(frozen=True, kw_only=True)
class RoundDecision(RoundOutcome):
    """The end of a round: its outcome, the seeds it was decided over, and the next seeds of the survivors."""

    seeds: tuple[int, ...]
    next: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class RungOutcome:
    """The configurations that continue after a rung; `guarded` are the survivors that only the guard has saved.

    By config_id, with None for failed configurations: `values` are median scores at the rung, `improvements` the median
    over seeds of the improvement since an earlier step, `spreads` the interquartile range of the scores at the rung.
    """

    survivors: tuple[str, ...]
    guarded: tuple[str, ...]
    values: Mapping[str, float | None]
    improvements: Mapping[str, float | None]
    spreads: Mapping[str, float | None]


@dataclass(frozen=True, kw_only=True)
class RungDecision(RungOutcome):
    """The decision at a rung: its outcome and step, the start `since` of the improvements, and the seeds."""

    step: int
    since: int
    seeds: tuple[int, ...]

    @property
    def pruned(self) -> tuple[str, ...]:
        """The config_ids that are pruned at this rung."""
        return tuple(config_id for config_id in self.values if config_id not in self.survivors)


_Decision = TypeVar("_Decision", RoundDecision, RungDecision)


@dataclass(frozen=True, kw_only=True)
class Round:
    """A round: its configurations, their new seeds, and its decision, None while the round is open."""

    contenders: tuple[str, ...]
    new_seeds: tuple[int, ...]
    decision: RoundDecision | None

    @property
    def member_count(self) -> int:
        """Number of members of the round."""
        return len(self.contenders) * len(self.new_seeds)


def is_race(specs: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether the sweep with these recorded specifications is a race."""
    return bool(specs) and specs[-1].get("search", {}).get("racing") is not None


def read_common_seeds(specs: Sequence[Mapping[str, Any]]) -> tuple[int, ...]:
    """Return the seeds that every configuration has: all seeds of the specification, in a race the first round's."""
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
        raise ValueError(f"decision of round {index + 1}, but only {len(decisions)} rounds were decided")
    _add_or_compare(decisions, index, decision, f"round {index + 1} of the race")
    return decision


def read_rungs(specs: Sequence[Mapping[str, Any]]) -> tuple[Rung, ...]:
    """Return the rungs of the first round; empty if every configuration trains to the end."""
    steps = specs[-1]["search"]["racing"].get("steps") if is_race(specs) else None
    evaluation_period = specs[-1].get("evaluation", {}).get("every")
    last_step = specs[-1].get("training", {}).get("steps")
    if steps is None or not isinstance(evaluation_period, int) or not isinstance(last_step, int):
        return ()
    return Rungs.model_validate(steps).list_rungs(evaluation_period, last_step)


def add_rung(
    rungs: list[RungDecision],
    specs: Sequence[Mapping[str, Any]],
    configurations: Collection[str],
    fields: Mapping[str, Any],
) -> RungDecision:
    """Append the decision of a record to the earlier ones unless it is among them; return it.

    Raises ValueError for a decision outside the race, or one that contradicts a recorded decision.
    """
    decision = _read_decision(RungDecision, fields)
    index = fields["rung"]
    planned = read_rungs(specs)
    if index > len(rungs) or index >= len(planned) or (decision.step, decision.since) != planned[index]:
        raise ValueError(f"decision at step {decision.step} is not at the next rung of the race")
    if unknown := sorted({*decision.values, *decision.survivors}.difference(configurations)):
        raise ValueError(f"decision about unknown configuration {unknown[0]}")
    _add_or_compare(rungs, index, decision, f"the rung at step {decision.step}")
    return decision


def _read_decision(decision_class: type[_Decision], fields: Mapping[str, Any]) -> _Decision:
    """Return the decision from the fields of a record that have its names, with tuples for lists."""
    values: dict[str, Any] = {
        field.name: fields[field.name] for field in dataclass_fields(decision_class) if field.name in fields
    }
    return decision_class(**values | {name: tuple(value) for name, value in values.items() if isinstance(value, list)})


def _add_or_compare(decisions: list[_Decision], index: int, decision: _Decision, name: str) -> None:
    """Append a decision, or raise ValueError if a different decision is recorded at `index`."""
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
    """Undo the last decision if no configuration survived because packs failed, so that it is decided again.

    Packs that ended at a rung are reopened.
    """
    if decisions and not decisions[-1].survivors:
        decisions.pop()
    elif rungs and not rungs[-1].survivors:
        pruned = rungs.pop().pruned
        for config_id in pruned:
            configurations[config_id].pruned_at = None
        for pack in packs:
            pack.pruned_at = {config_id: step for config_id, step in pack.pruned_at.items() if config_id not in pruned}
            if pack.status == "complete" and not pack.has_last_evaluation and not pack.is_pruned:
                pack.reopen()


class Race:
    """The rounds and rungs of a race; `config_ids` are in the order of the configurations' numbers.

    `rungs` are the decided rungs of the first round; its packs pause at `next_rung`, None after the last rung.
    """

    def __init__(
        self,
        specs: Sequence[Mapping[str, Any]],
        config_ids: Collection[str],
        decisions: Sequence[RoundDecision],
        rungs: Sequence[RungDecision],
    ) -> None:
        self._all_seeds = tuple(specs[-1].get("seeds", ()))
        self._steps = specs[-1].get("training", {}).get("steps", 0)
        self.rungs = tuple(rungs)

        # A rung without survivors ends the race, so no further rung follows.
        undecided_rungs = read_rungs(specs)[len(rungs) :] if not rungs or rungs[-1].survivors else ()
        self.next_rung: Rung | None = next(iter(undecided_rungs), None)

        # Each decision gives the configurations and the new seeds of the round after it; the last round is open.
        self.rounds: list[Round] = []
        contenders, seeds = tuple(config_ids), read_common_seeds(specs)
        for decision in decisions:
            self.rounds.append(Round(contenders=contenders, new_seeds=seeds, decision=decision))
            contenders, seeds = decision.survivors, decision.next
        self.rounds.append(Round(contenders=contenders, new_seeds=seeds, decision=None))

    @property
    def contenders(self) -> tuple[str, ...]:
        """The config_ids of the last round that are not pruned."""
        after_rung = self.rungs and len(self.rounds) == 1
        return self.rungs[-1].survivors if after_rung else self.rounds[-1].contenders

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the configurations in the last round."""
        return tuple(seed for round_ in self.rounds for seed in round_.new_seeds)

    @property
    def seeds_left(self) -> tuple[int, ...]:
        """The seeds of the sweep that no round has used yet; empty if the race is over."""
        all_eliminated = (len(self.rounds) > 1 or self.rungs) and not self.contenders
        return () if all_eliminated else tuple(seed for seed in self._all_seeds if seed not in self.seeds)

    @property
    def has_ended(self) -> bool:
        """Whether no further round and no further rung follows."""
        return not self.seeds_left and self.next_rung is None

    def count_rounds(self, config_id: str) -> int:
        """Return the number of rounds that a configuration was in."""
        return sum(config_id in round_.contenders for round_ in self.rounds)

    @property
    def member_count(self) -> int:
        """Number of members of all rounds so far."""
        return sum(round_.member_count for round_ in self.rounds)

    @property
    def member_count_without_race(self) -> int:
        """Number of members of the same sweep without a race."""
        return len(self.rounds[0].contenders) * len(self._all_seeds)

    @property
    def member_steps_of_first_round(self) -> int:
        """Member-steps of the first round without rungs."""
        return self.rounds[0].member_count * self._steps

    @property
    def member_steps_saved(self) -> int:
        """Member-steps that pruning has saved."""
        seeds = len(self.rounds[0].new_seeds)
        return sum(seeds * len(rung.pruned) * (self._steps - rung.step) for rung in self.rungs)
