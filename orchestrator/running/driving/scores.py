"""Scores while a sweep runs: of members once their pack has its last evaluation, of configurations from theirs."""

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np

from orchestrator.record.kept.curves import read_curves
from orchestrator.record.state.parts import ConfigurationState
from orchestrator.record.state.state import SweepState
from orchestrator.results.scoring.evaluation_choice import LAST
from orchestrator.results.scoring.objective import is_judged, reduced_rows, score_configuration, score_members
from search_spaces import Objective
from trainers.evaluation.results import Evaluation


class Scores:
    """The scores of members that have reached their last evaluation, until their configuration takes them."""

    def __init__(self, objective: Objective, state: SweepState) -> None:
        self._objective, self._state = objective, state
        self._members: dict[str, dict[int, float]] = {}

    def take_final(self, pack_id: str, final: Evaluation) -> None:
        """Score the members of a pack whose last evaluation has just been recorded."""
        if self._objective.evaluation == LAST:
            self._take(self._of_final(pack_id, final))  # nothing has to be read for it
        else:
            self.take_recorded({pack_id})

    def take_recorded(self, packs: set[str]) -> None:
        """Score the members of packs that have their last evaluation, from the curves in the ledger."""
        only_last = self._objective.evaluation == LAST
        keep = partial(is_judged, objective=self._objective)
        if packs and len(curves := read_curves(self._state, only_last, packs=packs, keep=keep)):
            self._take(score_members(curves, self._objective).itertuples(index=False, name=None))

    def of(self, configuration: ConfigurationState) -> dict[str, Any]:
        """The fields of the score record of a configuration; a member that never got so far counts as failed."""
        known = self._members.pop(configuration.config_id, {})
        scores = [known.get(seed, np.nan) for seed in sorted(configuration.members)]
        scored = score_configuration(configuration.config_id, scores, self._objective)
        return {
            "config_id": configuration.config_id,
            "number": configuration.number,
            "score": None if scored.failed else scored.score,
            "q25": scored.q25,
            "q75": scored.q75,
            "seeds_run": scored.seeds_run,
            "seeds_failed": scored.seeds_failed,
        }

    def _take(self, scores: Iterable[tuple[str, int, float]]) -> None:
        for name, seed, score in scores:
            self._members.setdefault(name, {})[int(seed)] = float(score)

    def _of_final(self, pack_id: str, final: Evaluation) -> Iterable[tuple[str, int, float]]:
        """(config_id, seed, score) of every member, as `score_members` has them of the same curves."""
        objective = self._objective
        a, k = final.averages.index(objective.average), final.metrics.index(objective.metric)
        places = [final.lengths.index(length) for length in sorted(objective.lengths)]
        values_ML = final.values_MAKL[:, a, k][:, places].astype(np.float64, order="C")
        scores = reduced_rows(values_ML, objective.reduce).tolist()
        members = self._state.packs[pack_id].members
        return [(name, seed, score) for (name, seed), score in zip(members, scores, strict=True)]
