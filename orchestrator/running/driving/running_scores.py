"""Scores of a running sweep: each member after its last evaluation, each configuration from its members."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from orchestrator.record.files.curves import read_curves
from orchestrator.record.state.entities import ConfigurationState
from orchestrator.record.state.race import is_race
from orchestrator.record.state.state import SweepState
from orchestrator.results.scoring.configuration_scores import (
    mask_judged_rows,
    reduce_rows,
    score_configuration,
    score_members,
)
from orchestrator.results.scoring.evaluation_choice import LAST
from search_spaces import Objective
from trainers.evaluation.results import Evaluation


class RecordedScores:
    """The scores of members after their last evaluation, until their configuration is scored.

    A race keeps them longer, because they decide rounds and survivors are scored again.
    """

    def __init__(self, objective: Objective, state: SweepState) -> None:
        self._objective = objective
        self._state = state
        self._scores_by_id: dict[str, dict[int, float]] = {}

    def score_final(self, pack_id: str, final: Evaluation) -> None:
        """Score the members of a pack whose last evaluation has just been recorded."""
        if self._objective.evaluation == LAST:
            self._store(self._score_final_curves(pack_id, final))  # nothing has to be read for it
        else:
            self.score_recorded({pack_id})

    def score_recorded(self, packs: set[str]) -> None:
        """Score the members of packs that have their last evaluation, from the curves in the ledger."""
        only_last = self._objective.evaluation == LAST
        keep = partial(mask_judged_rows, objective=self._objective)
        if packs and len(curves := read_curves(self._state, only_last, packs=packs, keep=keep)):
            self._store(score_members(curves, self._objective).itertuples(index=False, name=None))

    def make_score_fields(self, configuration: ConfigurationState) -> dict[str, Any]:
        """Return the fields of a configuration's score record; a member without a last evaluation counts as failed."""
        # Only a race needs the scores of seeds again, for its decisions.
        scores = self.get_seed_scores(configuration.config_id, sorted(configuration.members))
        if not is_race(self._state.specs):
            self._scores_by_id.pop(configuration.config_id, None)

        scored = score_configuration(scores, self._objective)
        return {
            "config_id": configuration.config_id,
            "number": configuration.number,
            "score": None if scored.is_failed else scored.score,
            "q25": scored.quartiles.q25,
            "q75": scored.quartiles.q75,
            "seeds_run": scored.seed_count,
            "seeds_failed": scored.failed_count,
        }

    def get_seed_scores(self, config_id: str, seeds: Sequence[int]) -> list[float]:
        """Return the scores of these seeds of a configuration, NaN for a member without a last evaluation."""
        score_by_seed = self._scores_by_id.get(config_id, {})
        return [score_by_seed.get(seed, np.nan) for seed in seeds]

    def _store(self, scores: Iterable[tuple[str, int, float]]) -> None:
        """Keep the scores, given as (config_id, seed, score)."""
        for config_id, seed, score in scores:
            self._scores_by_id.setdefault(config_id, {})[int(seed)] = float(score)

    def _score_final_curves(self, pack_id: str, final: Evaluation) -> Iterable[tuple[str, int, float]]:
        """Return (config_id, seed, score) of every member, as `score_members` does for the same curves."""
        objective = self._objective
        average = final.averages.index(objective.average)
        metric = final.metrics.index(objective.metric)
        columns = [final.lengths.index(length) for length in sorted(objective.lengths)]
        values_ML = final.values_MAKL[:, average, metric][:, columns].astype(np.float64, order="C")
        scores = reduce_rows(values_ML, objective.reduce).tolist()
        members = self._state.packs[pack_id].members
        return [(config_id, seed, score) for (config_id, seed), score in zip(members, scores, strict=True)]
