"""Compare the last and the best evaluation of each configuration, and measure how its judged metric fluctuates."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from orchestrator.results.scoring.evaluation_choice import BEST, LAST
from orchestrator.results.scoring.length_groups import LengthGroups
from orchestrator.results.scoring.objective import (
    choose_evaluations,
    is_judged,
    judged_over_seeds,
    judged_values,
    score_configurations,
    score_members,
)
from orchestrator.statistics.quartiles import Floats, Quartiles, quartiles
from search_spaces import Objective


@dataclass(frozen=True, kw_only=True)
class AtEvaluation:
    """The judged metric over seeds: the score, and means over the trained and the test lengths (None without them)."""

    trained: Quartiles | None
    selection: Quartiles
    test: Quartiles | None


@dataclass(frozen=True, kw_only=True)
class LastAndBest:
    """One configuration. `steps` has the best step of every seed that did not fail.

    Over the same seeds, `difference` is best minus last at the test lengths (None without any), and `fluctuation` the
    median of largest minus smallest value there in the last half of the evaluations (at least two). `selection` and
    `test` are the judged metric of each seed at the steps `evaluated`, NaN once it has failed.
    """

    config_id: str
    last: AtEvaluation
    best: AtEvaluation
    steps: dict[int, int]
    difference: Quartiles | None
    fluctuation: float
    evaluated: tuple[int, ...]
    selection: dict[int, tuple[float, ...]]
    test: dict[int, tuple[float, ...]]


def compare_last_and_best(
    curves: pd.DataFrame,
    objective: Objective,
    groups: Mapping[str, LengthGroups],
    seeds: Mapping[str, Iterable[int]],
) -> tuple[LastAndBest, ...]:
    """Compare the configurations of `groups`, in their order; those that were evaluated only once are left out.

    `curves` has their judged metric at every evaluation, `seeds` the seeds that were planned.
    """
    curves = curves[is_judged(curves, objective)].astype({"config_id": "str"})
    evaluations = curves.groupby("config_id")["step"].nunique()
    groups = {config_id: found for config_id, found in groups.items() if evaluations.get(config_id, 0) > 1}
    if not groups:
        return ()
    curves = curves[curves["config_id"].isin(groups)]
    seeds = {config_id: seeds[config_id] for config_id in groups}
    judged, scores, steps = judged_values(curves, objective), {}, {}
    for evaluation in (LAST, BEST):
        rule = objective.model_copy(update={"evaluation": evaluation})
        found = score_configurations(score_members(curves, rule, seeds), rule)
        scores[evaluation] = {name: one.quartiles for name, one in found.items()}
        steps[evaluation] = _by_configuration(choose_evaluations(curves, rule))
    tables, values = _by_configuration(curves), _by_configuration(judged)
    return tuple(
        _compared(
            config_id,
            tables[config_id],
            values[config_id],
            {evaluation: (scores[evaluation][config_id], steps[evaluation][config_id]) for evaluation in scores},
            objective,
            groups[config_id],
        )
        for config_id in groups
    )


def _compared(
    config_id: str,
    curves: pd.DataFrame,
    judged: pd.DataFrame,
    chosen: Mapping[str, tuple[Quartiles, pd.DataFrame]],
    objective: Objective,
    groups: LengthGroups,
) -> LastAndBest:
    seeds, evaluated = np.unique(curves["seed"]), np.unique(curves["step"])
    present_SE = np.zeros((len(seeds), len(evaluated)), dtype=bool)
    present_SE[_places(curves, seeds, evaluated)] = True
    selection = np.full(present_SE.shape, np.nan)
    selection[_places(judged, seeds, evaluated)] = judged["value"].to_numpy()
    means = _means(curves, seeds, evaluated, (groups.trained, groups.test))
    selection, trained, test = (_fill_absent(values, present_SE) for values in (selection, *means))
    at, place = {}, {}
    for evaluation, (score, steps) in chosen.items():
        here = dict(zip(steps["seed"].tolist(), steps["step"].tolist(), strict=True))
        place[evaluation] = np.array([np.searchsorted(evaluated, here.get(seed, evaluated[-1])) for seed in seeds])
        rows = np.arange(len(seeds))
        at[evaluation] = AtEvaluation(
            trained=judged_over_seeds(trained[rows, place[evaluation]], objective) if groups.trained else None,
            selection=score,
            test=judged_over_seeds(test[rows, place[evaluation]], objective) if groups.test else None,
        )
    alive = ~np.isnan(selection[:, -1])
    rows = np.flatnonzero(alive)
    half = test[rows][:, -max(2, math.ceil(len(evaluated) / 2)) :]
    with np.errstate(invalid="ignore"):  # between equal infinities there is no difference to give
        apart = test[rows, place[BEST][rows]] - test[rows, place[LAST][rows]]
        ranges = half.max(axis=1) - half.min(axis=1)
    return LastAndBest(
        config_id=config_id,
        last=at[LAST],
        best=at[BEST],
        steps={int(seeds[row]): int(evaluated[place[BEST][row]]) for row in rows},
        difference=_known(apart),
        fluctuation=found.median if (found := _known(ranges)) else math.nan,
        evaluated=tuple(evaluated.tolist()),
        selection=_by_seed(seeds, selection),
        test=_by_seed(seeds, test) if groups.test else {},
    )


def _places(rows: pd.DataFrame, seeds: Any, evaluated: Any) -> tuple[Any, Any]:
    """Return which of the seeds and which of the evaluations each row is of."""
    return np.searchsorted(seeds, rows["seed"].to_numpy()), np.searchsorted(evaluated, rows["step"].to_numpy())


def _means(
    curves: pd.DataFrame, seeds: Any, evaluated: Any, groups: tuple[tuple[int, ...], tuple[int, ...]]
) -> Iterator[Floats]:
    """Yield, for each group of lengths, its mean of every seed at every evaluation (S, E), NaN if a value is missing.

    It is also NaN if a value is NaN, and for a group without lengths.
    """
    places, length, value = _places(curves, seeds, evaluated), curves["length"].to_numpy(), curves["value"].to_numpy()
    for lengths in map(sorted, groups):
        values_SEL = np.full((len(seeds), len(evaluated), len(lengths)), np.nan)
        for index, one in enumerate(lengths):
            rows = length == one
            values_SEL[places[0][rows], places[1][rows], index] = value[rows]
        with np.errstate(invalid="ignore"):  # inf - inf, both in one curve: no number
            yield values_SEL.sum(axis=2) / len(lengths) if lengths else np.full(values_SEL.shape[:2], np.nan)


def _fill_absent(values_SE: Floats, present_SE: np.ndarray[Any, Any]) -> Floats:
    """Return the values with those of the next evaluation where a seed has none: it had stopped early."""
    filled = values_SE.copy()
    for place in reversed(range(filled.shape[1] - 1)):
        filled[:, place] = np.where(present_SE[:, place], filled[:, place], filled[:, place + 1])
    return filled


def _by_configuration(rows: pd.DataFrame) -> dict[str, pd.DataFrame]:
    return {str(config_id): table for config_id, table in rows.groupby("config_id", sort=False)}


def _by_seed(seeds: Any, values: Floats) -> dict[int, tuple[float, ...]]:
    return {int(seed): tuple(line.tolist()) for seed, line in zip(seeds, values, strict=True)}


def _known(values: Floats) -> Quartiles | None:
    """Return the quartiles of the values that are not NaN, None without any."""
    values = values[~np.isnan(values)]
    return quartiles(values) if len(values) else None
