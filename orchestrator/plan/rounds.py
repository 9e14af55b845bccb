"""How many members a sweep has, in each round of a race or all at once, how long they train, and their weights."""

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.plan.configurations import Configuration
from orchestrator.plan.search import count_configurations
from orchestrator.trainer import trainer_of
from search_spaces import SweepSpec

SMALL_WEIGHTS = 64 * 2**20  # bytes of all members together; resources.keep_weights: auto keeps no more


@dataclass(frozen=True, kw_only=True)
class PlannedRound:
    """A round: how many configurations are in it at most, and the seeds that are new to them.

    `rungs` has for every stretch of training the step at which it ends and the number of configurations that train in
    it; the last stretch ends with the training. It is empty if all configurations train to the end.
    """

    configurations: int
    seeds: tuple[int, ...]
    rungs: tuple[tuple[int, int], ...] = ()

    @property
    def members(self) -> int:
        """How many members it has at most."""
        return self.configurations * len(self.seeds)

    @property
    def survivors(self) -> int:
        """How many configurations train to the end."""
        return self.rungs[-1][1] if self.rungs else self.configurations

    @property
    def share(self) -> float:
        """The share of the steps of its members that are trained."""
        if not self.rungs:
            return 1.0
        starts = (0, *(step for step, _ in self.rungs))
        steps = sum(remaining * (step - start) for start, (step, remaining) in zip(starts, self.rungs, strict=False))
        return steps / (self.configurations * self.rungs[-1][0])


def plan_rounds(spec: SweepSpec, configurations: int) -> list[PlannedRound]:
    """Return the rounds of a sweep with this many different configurations; one of all seeds without a race.

    A round that is decided by a test is assumed to keep every configuration. Ties, and configurations that the guard of
    rungs keeps, are not counted.
    """
    racing, seeds = spec.search.racing, spec.seeds
    if racing is None:
        return [PlannedRound(configurations=configurations, seeds=seeds)]
    rungs = _plan_rungs(spec, configurations)
    rounds = [PlannedRound(configurations=configurations, seeds=seeds[: racing.first], rungs=rungs)]
    trained = racing.first
    while trained < len(seeds):
        until = racing.next_seed_count(trained, len(seeds))
        stay = racing.count_kept(rounds[-1].survivors)
        rounds.append(PlannedRound(configurations=stay, seeds=seeds[trained:until]))
        trained = until
    return rounds


def count_weights_bytes(spec: SweepSpec, built: Sequence[Configuration]) -> int:
    """Return the bytes of the weights of all members that a sweep plans, headers of files apart.

    `built` is its first generation; the configurations of later ones count as the mean of these.
    """
    members = [configuration.member(spec.seeds[0]) for configuration in built if configuration.duplicate_of is None]
    sizes = [trainer_of(spec.sections).count_kept_bytes(member) for member in members]
    planned = sum(len(part.seeds) * sum(sizes[: part.configurations]) for part in plan_rounds(spec, len(sizes)))
    return round(count_configurations(spec) / len(built) * planned)


def _plan_rungs(spec: SweepSpec, configurations: int) -> tuple[tuple[int, int], ...]:
    """Return the step and the configurations of every stretch of the first round, which rungs end; none without."""
    racing, steps = spec.search.racing, spec.training.get("steps")
    if racing is None or racing.steps is None or not isinstance(steps, int):
        return ()
    rungs, remaining = [], configurations
    for rung in racing.steps.rungs(spec.evaluation["every"], steps):
        rungs.append((rung.step, remaining))
        remaining = racing.steps.count_kept(remaining)
    return (*rungs, (steps, remaining))
