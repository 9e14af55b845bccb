"""Decide which configurations of a race continue after a rung, by their scores during training.

The share with the best scores continues, rounded up, and so do all configurations that tie with the last of them.
Training curves cross, so this rule alone would prune configurations that learn late. Therefore a guard also keeps
configurations that still improve by more than their seeds differ. Each seed's improvement since an earlier step is
computed, and the median over seeds must be larger than the interquartile range of the scores at the rung. Pairing
cancels constant differences between seeds, and the interquartile range is robust against outliers among fewer than a
quarter of the seeds (Rousseeuw and Croux, 1993, "Alternatives to the Median Absolute Deviation"). Failed configurations
are pruned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from orchestrator.record.state.race import RungOutcome
from orchestrator.results.scoring.configuration_scores import compute_judged_values, score_configuration
from orchestrator.results.scoring.evaluation_choice import choose_steps
from orchestrator.results.scoring.race_decision import keep_best
from orchestrator.statistics.failed_seeds import get_sign, summarize_seeds
from search_spaces import Objective, Rungs

if TYPE_CHECKING:
    import pandas as pd

SeedScores = Mapping[str, Sequence[float]]
"""The scores of seeds, NaN for a failed one, by config_id; all configurations have the same seeds in the same order."""


def compute_scores_at_step(
    curves: pd.DataFrame, objective: Objective, step: int, config_ids: Sequence[str], seeds: Sequence[int]
) -> dict[str, list[float]]:
    """Return the scores of `seeds` of the configurations `config_ids` as if training ended at `step`.

    `curves` may have later steps. If all members of a pack had stopped early, its seeds have no evaluation at the step.
    Such seeds have the score of their next evaluation, which repeats the last values.
    """
    # Rows are sorted by step: the first one at or after the step of the rung is the last evaluation that counts.
    judged_values = compute_judged_values(curves, objective)
    judged_values = judged_values[judged_values["config_id"].isin(config_ids)]
    is_before = judged_values["step"] < step
    last_evaluations = judged_values[~is_before].drop_duplicates(["config_id", "seed"]).assign(step=step)
    earlier_evaluations = judged_values[is_before].merge(
        last_evaluations[["config_id", "seed"]], on=["config_id", "seed"]
    )
    import pandas as pd

    # With `evaluation: best` an earlier evaluation may be better, as at the end of training.
    chosen_evaluations = choose_steps(
        pd.concat([earlier_evaluations, last_evaluations]), objective.direction, objective.evaluation
    )
    rows = chosen_evaluations[["config_id", "seed", "value"]].itertuples(index=False, name=None)
    scores = {(config_id, seed): value for config_id, seed, value in rows}
    return {config_id: [float(scores.get((config_id, seed), math.nan)) for seed in seeds] for config_id in config_ids}


def decide_rung(current: SeedScores, earlier: SeedScores, rungs: Rungs, objective: Objective) -> RungOutcome:
    """Return which configurations continue, from the scores at the rung (`current`) and at an earlier step.

    Failed seeds count as `objective.failed_seeds` says, also in improvements.
    """
    # Failed configurations are pruned, so only the others need improvements and spreads.
    policy = objective.failed_seeds
    sign = get_sign(objective.direction)
    scored = {config_id: score_configuration(scores, objective) for config_id, scores in current.items()}
    alive_losses = {config_id: sign * score.score for config_id, score in scored.items() if not score.is_failed}
    improvements, spreads = dict[str, float](), dict[str, float]()
    with np.errstate(invalid="ignore"):  # inf - inf, not reached at either step, counts as a failed seed
        for config_id in alive_losses:
            gains = sign * (np.array(earlier[config_id]) - np.array(current[config_id]))
            improvements[config_id] = summarize_seeds(gains, policy, "maximize").median
            spreads[config_id] = float(np.subtract(scored[config_id].quartiles.q75, scored[config_id].quartiles.q25))

    # The share is of all configurations, so a failed one does not reduce how many others continue.
    best = keep_best(alive_losses, rungs.count_kept(len(current)))
    guarded = tuple(
        config_id
        for config_id in alive_losses
        if rungs.guard and config_id not in best and improvements[config_id] > spreads[config_id]
    )

    # A ledger has no NaN: failed configurations have None.
    def to_recorded(values: Mapping[str, float]) -> dict[str, float | None]:
        return {
            config_id: None if math.isnan(values.get(config_id, math.nan)) else values[config_id]
            for config_id in current
        }

    # The record keeps the values that decided, so that a reader can check the decision.
    return RungOutcome(
        survivors=tuple(config_id for config_id in current if config_id in best or config_id in guarded),
        guarded=guarded,
        values=to_recorded({config_id: scored[config_id].score for config_id in alive_losses}),
        improvements=to_recorded(improvements),
        spreads=to_recorded(spreads),
    )
