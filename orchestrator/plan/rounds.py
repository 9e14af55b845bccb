"""How many members a sweep will have, in each round of a race or all at once, and how large their weights are."""

from collections.abc import Sequence
from dataclasses import dataclass

from orchestrator.plan.configurations import Configuration, weights_bytes
from orchestrator.plan.search import total
from search_spaces import SweepSpec
from trainers.evaluation.weights import averages_kept

SMALL_WEIGHTS = 64 * 2**20  # bytes of all members together; resources.keep_weights: auto keeps no more


@dataclass(frozen=True, kw_only=True)
class PlannedRound:
    """A round: how many configurations are in it at most, and the seeds that are new to them."""

    configurations: int
    seeds: tuple[int, ...]

    @property
    def members(self) -> int:
        """How many members it has at most."""
        return self.configurations * len(self.seeds)


def plan_rounds(spec: SweepSpec, configurations: int) -> list[PlannedRound]:
    """Return the rounds of a sweep with so many different configurations; one of all seeds without a race.

    A test may keep every configuration, which is what is returned. Ties are not foreseen.
    """
    racing, seeds = spec.search.racing, spec.seeds
    if racing is None:
        return [PlannedRound(configurations=configurations, seeds=seeds)]
    rounds = [PlannedRound(configurations=configurations, seeds=seeds[: racing.first])]
    given = racing.first
    while given < len(seeds):
        until = racing.next_count(given, len(seeds))
        stay = racing.count_kept(rounds[-1].configurations)
        rounds.append(PlannedRound(configurations=stay, seeds=seeds[given:until]))
        given = until
    return rounds


def planned_bytes(spec: SweepSpec, built: Sequence[Configuration]) -> int:
    """Return the bytes of the weights of all members that a sweep plans, headers of files apart.

    `built` is its first generation; the configurations of later ones count as the mean of these.
    """
    members = [one.member(spec.seeds[0]) for one in built if one.duplicate_of is None]
    sizes = [weights_bytes(member) * len(averages_kept(member)) for member in members]
    planned = sum(len(part.seeds) * sum(sizes[: part.configurations]) for part in plan_rounds(spec, len(sizes)))
    return round(total(spec) / len(built) * planned)
