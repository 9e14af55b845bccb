"""Compute bands: median and quartile curves over the seeds of a configuration, with the curve of every seed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from orchestrator.results.scoring.configuration_scores import compute_judged_quartiles, reduce_rows
from orchestrator.results.scoring.evaluation_choice import Mask
from orchestrator.statistics.failed_seeds import compute_group_quartiles, get_failed_seed_value, get_worst_value
from orchestrator.statistics.quartiles import Quartiles
from search_spaces import Objective

Integers = npt.NDArray[np.int64]
CurveKey = tuple[str, str, str]  # config_id, metric, average


@dataclass(frozen=True, kw_only=True)
class Band:
    """A metric of a weight average against length: quartiles over seeds, and the curve of every seed."""

    lengths: tuple[int, ...]
    q25: tuple[float, ...]
    median: tuple[float, ...]
    q75: tuple[float, ...]
    curves_by_seed: dict[int, tuple[float, ...]]

    def reduce_seed_curves(self, lengths: Collection[int], reduce: str) -> dict[int, float]:
        """Return each seed's curve reduced over `lengths` by `reduce_rows`; empty if none of them was evaluated."""
        columns = [column for column, length in enumerate(self.lengths) if length in lengths]
        if not columns:
            return {}

        # All seeds are reduced at once, in the same order of operations as the score.
        values_SL = np.array(
            [[values[column] for column in columns] for values in self.curves_by_seed.values()], dtype=np.float64
        )
        return dict(zip(self.curves_by_seed, reduce_rows(values_SL, reduce).tolist(), strict=True))


def make_bands(curves: pd.DataFrame, objective: Objective, directions: Mapping[str, str]) -> dict[CurveKey, Band]:
    """Return the band of every curve; failed seeds count as the objective says, by the direction of each metric.

    `curves` has one step of every seed, which may differ between seeds. Sorting all curves together is fifty times
    faster than groupby, so millions of rows take seconds.
    """
    if not len(curves):
        return {}

    # Integer codes sort faster than text. Shapes: R rows, K keys that sort them, G groups of seeds at a length.
    directions = {**directions, objective.metric: objective.direction}
    codes_by_key, labels = zip(*(_factorize(curves[name]) for name in ("config_id", "metric", "average")), strict=True)
    seed_R, length_R = (curves[name].to_numpy() for name in ("seed", "length"))
    values_R = curves["value"].to_numpy(dtype=np.float64)

    # Sorted by curve, seed and length, the curve of a seed is a run of rows.
    order_R = np.lexsort((length_R, seed_R, *reversed(codes_by_key)))  # the last key has precedence
    seed_curves: dict[tuple[int, ...], dict[int, tuple[float, ...]]] = {}
    for (*curve, seed_number), (seed_curve,) in _split_runs(
        np.stack([*codes_by_key, seed_R])[:, order_R], [values_R[order_R]]
    ):
        seed_curves.setdefault(tuple(curve), {})[seed_number] = seed_curve

    # Sorted by curve and length, the seeds at a length are a run of rows. The value of a failed seed depends on the
    # direction of its metric.
    order_R = np.lexsort((length_R, *reversed(codes_by_key)))
    keys_KR = np.stack([*codes_by_key, length_R])[:, order_R]
    starts_G = np.flatnonzero(_find_run_starts(keys_KR))
    metric_directions = [directions.get(name, "none") for name in labels[1]]
    failed_values_G, worst_values_G = (
        np.array(values_by_metric)[codes_by_key[1][order_R[starts_G]]]
        for values_by_metric in (
            [get_failed_seed_value(objective.failed_seeds, direction) for direction in metric_directions],
            [get_worst_value(direction) for direction in metric_directions],
        )
    )
    quartiles = compute_group_quartiles(
        values_R[order_R], np.diff(np.append(starts_G, len(order_R))), failed_values_G, worst_values_G
    )

    # The lengths of a curve are a run of quartiles.
    bands: dict[CurveKey, Band] = {}
    for curve, (lengths, q25, median, q75) in _split_runs(keys_KR[:-1, starts_G], [keys_KR[-1, starts_G], *quartiles]):
        config_id, metric, average = (names[code] for names, code in zip(labels, curve, strict=True))
        key = config_id, metric, average
        bands[key] = Band(lengths=lengths, q25=q25, median=median, q75=q75, curves_by_seed=seed_curves[tuple(curve)])
    return bands


def _factorize(column: pd.Series[Any]) -> tuple[Integers, list[Any]]:
    """Return the integer codes of a column and their labels, in the order of its categories or ascending."""
    if isinstance(column.dtype, pd.CategoricalDtype):
        return column.cat.codes.to_numpy().astype(np.int64), column.cat.categories.tolist()
    labels, codes = np.unique(column.to_numpy(), return_inverse=True)
    return codes.astype(np.int64), labels.tolist()


def _find_run_starts(keys_KR: Integers) -> Mask:
    """Return a mask (R,) of the first row of each run of equal keys."""
    return np.asarray((np.diff(keys_KR, prepend=-1) != 0).any(axis=0))


def _split_runs(keys_KR: Integers, columns: Sequence[Any]) -> Iterator[tuple[list[int], list[tuple[Any, ...]]]]:
    """Yield the keys of each run of equal keys, with its slice of each column."""
    column_lists = [column.tolist() for column in columns]
    for first, last in pairwise([*np.flatnonzero(_find_run_starts(keys_KR)).tolist(), keys_KR.shape[1]]):
        yield keys_KR[:, first].tolist(), [tuple(column[first:last]) for column in column_lists]


def compute_quartiles_at(band: Band, lengths: Sequence[int], objective: Objective) -> Quartiles | None:
    """Return quartiles over seeds of the mean over `lengths`; NaN if all seeds failed, None if none was evaluated."""
    means = band.reduce_seed_curves(lengths, "mean")
    return compute_judged_quartiles(means.values(), objective) if means else None
