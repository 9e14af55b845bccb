"""How many members a sweep will have: those of each round of a race, and all at once without a race."""

from dataclasses import dataclass

from search_spaces import SweepSpec


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
