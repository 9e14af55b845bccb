"""The race of a running sweep: when a round or a rung is decided, and the record of its decision."""

from dataclasses import asdict
from functools import partial
from typing import Any

from orchestrator.record.kept.curves import read_curves
from orchestrator.record.state.parts import PackState
from orchestrator.record.state.race import Race
from orchestrator.record.state.state import SweepState
from orchestrator.results.scoring.objective import is_judged
from orchestrator.results.scoring.race_decision import decide_round
from orchestrator.results.scoring.rung_decision import decide_rung, scores_at_step
from orchestrator.running.driving.scores import Scores
from search_spaces import SweepSpec


def is_race_over(state: SweepState) -> bool:
    """Return whether no further round follows; always true for a sweep that is no race."""
    return state.race is None or state.race.is_over


def is_paused(race: Race | None, pack: PackState) -> bool:
    """Return whether a pack waits for the decision at a rung."""
    return race is not None and race.next_rung is not None and pack.step >= race.next_rung.step


def rung_fields(spec: SweepSpec, state: SweepState) -> dict[str, Any] | None:
    """Return the fields of the record that decides who trains on at the next rung.

    None while a pack has not reached it, and if no rung is left. All configurations must be drawn and in packs, and no
    pack may be running. The decision depends on the recorded curves up to the rung alone.
    """
    race, racing = state.race, spec.search.racing
    if race is None or racing is None or racing.steps is None or (rung := race.next_rung) is None:
        return None
    if not all(pack.has_ended or is_paused(race, pack) for pack in state.packs.values()):
        return None
    objective, seeds, names = spec.objective, race.seeds, race.contenders
    packs = {member.pack_id for name in names for member in state.configurations[name].members.values()}
    curves = read_curves(state, packs=packs, keep=partial(is_judged, objective=objective))
    now, before = (scores_at_step(curves, objective, step, names, seeds) for step in (rung.step, rung.since))
    outcome = decide_rung(now, before, racing.steps, objective)
    return {"rung": len(race.rungs), "step": rung.step, "since": rung.since, "seeds": seeds, **asdict(outcome)}


def race_fields(spec: SweepSpec, state: SweepState, scores: Scores) -> dict[str, Any] | None:
    """Return the fields of the record that ends a round and begins the next one.

    None while a configuration of the round has no score, and if no further round follows. All configurations must be
    drawn. The decision depends only on the scores of the seeds of this round and the earlier ones.
    """
    race, racing = state.race, spec.search.racing
    if race is None or racing is None or race.next_rung is not None or not race.seeds_left:
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
        "seeds": seeds,
        "next": race.seeds_left[:following],
        **asdict(outcome),
    }
