"""The race of a running sweep: when a round or a rung is decided, and the record of its decision."""

from dataclasses import asdict
from functools import partial
from typing import Any

from orchestrator.record.files.curves import read_curves
from orchestrator.record.state.entities import PackState
from orchestrator.record.state.race import Race
from orchestrator.record.state.state import SweepState
from orchestrator.results.scoring.configuration_scores import mask_judged_rows
from orchestrator.results.scoring.race_decision import decide_round
from orchestrator.results.scoring.rung_decision import compute_scores_at_step, decide_rung
from orchestrator.running.driving.running_scores import RecordedScores
from search_spaces import SweepSpec


def has_race_ended(state: SweepState) -> bool:
    """Return whether no further round follows; always true for a sweep that is not a race."""
    return state.race is None or state.race.has_ended


def is_paused(race: Race | None, pack: PackState) -> bool:
    """Return whether a pack waits for the decision at a rung."""
    return race is not None and race.next_rung is not None and pack.step >= race.next_rung.step


def is_rung_due(state: SweepState) -> bool:
    """Return whether every pack of a race has reached the next rung; all configurations must be drawn."""
    race = state.race
    if race is None or race.next_rung is None:
        return False
    return all(pack.has_ended or is_paused(race, pack) for pack in state.packs.values())


def is_round_due(state: SweepState) -> bool:
    """Return whether every configuration of a round has its score and another round follows; all must be drawn."""
    race = state.race
    if race is None or race.next_rung is not None or not race.seeds_left:
        return False
    return all(state.configurations[config_id].is_scored for config_id in race.contenders)


def make_rung_fields(spec: SweepSpec, state: SweepState) -> dict[str, Any]:
    """Return the fields of the record of the due rung: which configurations survive it.

    The decision depends only on the recorded curves up to the rung.
    """
    race, racing = state.race, spec.search.racing
    assert race is not None and race.next_rung is not None and racing is not None and racing.steps is not None

    rung = race.next_rung
    objective, seeds, config_ids = spec.objective, race.seeds, race.contenders
    packs = {member.pack_id for config_id in config_ids for member in state.configurations[config_id].members.values()}
    curves = read_curves(state, packs=packs, keep=partial(mask_judged_rows, objective=objective))

    # A configuration is judged by its score at this rung and by the improvement since the rung before.
    current, previous = (
        compute_scores_at_step(curves, objective, step, config_ids, seeds) for step in (rung.step, rung.since)
    )
    outcome = decide_rung(current, previous, racing.steps, objective)
    return {"rung": len(race.rungs), "step": rung.step, "since": rung.since, "seeds": seeds, **asdict(outcome)}


def make_race_fields(spec: SweepSpec, state: SweepState, scores: RecordedScores) -> dict[str, Any]:
    """Return the fields of the record that ends the due round and begins the next one.

    The decision depends only on the scores of the seeds of this round and the earlier ones.
    """
    race, racing = state.race, spec.search.racing
    assert race is not None and racing is not None

    seeds = race.seeds
    outcome = decide_round(
        {config_id: scores.get_seed_scores(config_id, seeds) for config_id in race.contenders}, racing, spec.objective
    )
    new_count = racing.compute_next_seed_count(len(seeds), len(seeds) + len(race.seeds_left)) - len(seeds)
    return {
        "round": len(race.rounds) - 1,
        "seeds": seeds,
        "next": race.seeds_left[:new_count],
        **asdict(outcome),
    }
