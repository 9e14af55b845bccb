"""Plan the rounds of a sweep: numbers of members, their steps, and the size of their weights."""

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.plan.configurations import Configuration
from orchestrator.plan.optuna_draws import count_configurations
from orchestrator.trainer_choice import get_trainer
from search_spaces import SweepSpec

MAX_AUTO_WEIGHTS_BYTES = 64 * 2**20  # total bytes up to which resources.keep_weights: auto keeps weights


@dataclass(frozen=True, kw_only=True)
class PlannedRound:
    """A planned round: the maximum number of configurations, and their new seeds.

    `rungs` has (last step, number of configurations) of every segment of training between rungs; the last segment
    ends with the training. It is empty if all configurations train to the end.
    """

    configurations: int
    seeds: tuple[int, ...]
    rungs: tuple[tuple[int, int], ...] = ()

    @property
    def member_count(self) -> int:
        """The maximum number of members."""
        return self.configurations * len(self.seeds)

    @property
    def survivors(self) -> int:
        """The number of configurations that train to the end."""
        return self.rungs[-1][1] if self.rungs else self.configurations

    @property
    def share(self) -> float:
        """The share of its members' steps that are trained; 1 without rungs."""
        if not self.rungs:
            return 1.0
        starts = (0, *(step for step, _ in self.rungs))
        steps = sum(remaining * (step - start) for start, (step, remaining) in zip(starts, self.rungs, strict=False))
        return steps / (self.configurations * self.rungs[-1][0])


def plan_rounds(spec: SweepSpec, configurations: int) -> list[PlannedRound]:
    """Return the rounds of a sweep with this many distinct configurations; without a race a single round of all seeds.

    Every configuration is assumed to survive a round that is decided by a test. Ties, and configurations that only the
    guard of rungs saves, are not counted.
    """
    racing, seeds = spec.search.racing, spec.seeds
    if racing is None:
        return [PlannedRound(configurations=configurations, seeds=seeds)]

    # Only the first round has rungs: the survivors of a race train to the end.
    rungs = _plan_rungs(spec, configurations)
    rounds = [PlannedRound(configurations=configurations, seeds=seeds[: racing.first], rungs=rungs)]
    seed_count = racing.first
    while seed_count < len(seeds):
        next_count = racing.compute_next_seed_count(seed_count, len(seeds))
        survivors = racing.count_kept(rounds[-1].survivors)
        rounds.append(PlannedRound(configurations=survivors, seeds=seeds[seed_count:next_count]))
        seed_count = next_count
    return rounds


def count_weights_bytes(spec: SweepSpec, built: Sequence[Configuration]) -> int:
    """Return the bytes of the weights of all planned members, without file headers.

    `built` is the first generation; later configurations count as the mean of these.
    """
    # The size of a member depends on its configuration, not on its seed.
    members = [
        configuration.build_member(spec.seeds[0]) for configuration in built if configuration.duplicate_of is None
    ]
    sizes = [get_trainer(spec.sections).count_kept_bytes(member) for member in members]
    planned_bytes = sum(
        len(planned_round.seeds) * sum(sizes[: planned_round.configurations])
        for planned_round in plan_rounds(spec, len(sizes))
    )
    return round(count_configurations(spec) / len(built) * planned_bytes)


def _plan_rungs(spec: SweepSpec, configurations: int) -> tuple[tuple[int, int], ...]:
    """Return the last step and the configurations of every segment of the first round; empty without rungs."""
    racing, steps = spec.search.racing, spec.training.get("steps")
    if racing is None or racing.steps is None or not isinstance(steps, int):
        return ()
    rungs, remaining = [], configurations
    for rung in racing.steps.list_rungs(spec.evaluation["every"], steps):
        rungs.append((rung.step, remaining))
        remaining = racing.steps.count_kept(remaining)
    return (*rungs, (steps, remaining))
