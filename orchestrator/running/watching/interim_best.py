"""Name the best configuration of a sweep before any has ended."""

import math

import pandas as pd

from orchestrator.record.state.labels import make_label
from orchestrator.record.state.state import SweepState
from orchestrator.results.scoring.configuration_scores import (
    compute_judged_values,
    rank_configurations,
    read_objective,
    score_configuration,
)
from orchestrator.results.scoring.rung_decision import compute_scores_at_step
from orchestrator.text.wording import format_number


def describe_interim_best(state: SweepState, curves: pd.DataFrame) -> str:
    """Return the best configuration as if training ended at the last common step: "0.213 (#8) at step 200".

    Compared are the configurations of which all seeds have reached the latest step that all seeds of any have reached;
    in a race only its contenders. Empty before a first evaluation, and without a finite score. Raises what
    `compute_judged_values` raises.
    """
    objective = read_objective(state.spec)
    last_steps = compute_judged_values(curves, objective).groupby(["config_id", "seed"])["step"].max().to_dict()
    candidates = state.race.contenders if state.race else state.configurations
    seeds = {config_id: state.list_planned_seeds(config_id) for config_id in candidates}
    steps = {
        config_id: min((last_steps.get((config_id, seed), 0) for seed in seeds[config_id]), default=0)
        for config_id in seeds
    }
    step = max(steps.values(), default=0)
    if not step:
        return ""

    # Configurations may have different seeds once some are extended.
    scores = {
        config_id: score_configuration(
            compute_scores_at_step(curves, objective, step, [config_id], seeds[config_id])[config_id], objective
        )
        for config_id in seeds
        if steps[config_id] == step
    }
    best_id = rank_configurations(scores, objective.direction)[0]
    score = scores[best_id].score
    if not math.isfinite(score):
        return ""
    return (
        f"{format_number(score)} ({make_label(state.provenance, state.configurations[best_id].number)}) at step {step}"
    )
