"""The race of a running sweep: when a round is decided, and the record of its decision."""

from typing import Any

from orchestrator.record.state.state import SweepState
from orchestrator.results.scoring.race_decision import decide_round
from orchestrator.running.driving.scores import Scores
from search_spaces import SweepSpec


def is_race_over(state: SweepState) -> bool:
    """Return whether no further round follows; always true for a sweep that is no race."""
    return state.race is None or state.race.is_over


def race_fields(spec: SweepSpec, state: SweepState, scores: Scores) -> dict[str, Any] | None:
    """Return the fields of the record that ends a round and begins the next one.

    None while a configuration of the round has no score, and if no further round follows. All configurations must be
    drawn. The decision depends on the scores of the seeds of the round alone.
    """
    race, racing = state.race, spec.search.racing
    if race is None or racing is None or race.is_over:
        return None
    if not all(state.configurations[name].finished for name in race.contenders):
        return None
    seeds = race.seeds
    outcome = decide_round(
        {name: scores.read_seed_scores(name, seeds) for name in race.contenders}, racing, spec.objective
    )
    following = racing.next_count(len(seeds), len(seeds) + len(race.seeds_left)) - len(seeds)
    return {
        "round": len(race.rounds) - 1,
        "seeds": list(seeds),
        "survivors": list(outcome.survivors),
        "next": list(race.seeds_left[:following]),
        "by": outcome.by,
        "values": outcome.values,
        "p": outcome.p,
    }
