"""Metrics named steps_to_... against the searched numbers: after how many steps a threshold was reached.

A seed has one number, the step by which it had reached the threshold at all trained lengths; infinite if it never did.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from orchestrator.results.outcomes import searched_values
from orchestrator.results.summary import Row, Summary
from orchestrator.statistics.effects.rank_effects import is_numeric
from orchestrator.statistics.failed_seeds import over_seeds
from orchestrator.statistics.quartiles import Quartiles

PREFIX = "steps_to_"
MOST_LINES = 8  # of a figure


@dataclass(frozen=True)
class Reached:
    """Steps at one value of a searched key: quartiles over seeds, and the `steps` of every seed, ascending.

    `line` has the values of the keys that separate lines. Seeds that never reached the threshold have infinite steps;
    those that failed are only counted in `failed`.
    """

    line: tuple[Any, ...]
    value: float
    over_seeds: Quartiles
    steps: tuple[float, ...]
    failed: int

    @property
    def never(self) -> int:
        """The number of seeds that never reached the threshold."""
        return sum(map(math.isinf, self.steps))


@dataclass(frozen=True)
class StepsTo:
    """A metric of steps against a searched key; a line for every value of `line_keys`."""

    metric: str
    key: str
    line_keys: tuple[str, ...]
    points: tuple[Reached, ...]


def steps_to(summary: Summary) -> tuple[StepsTo, ...]:
    """Return every steps metric against every searched number with several values, over complete configurations."""
    searched = searched_values(summary)
    rows = [replace(row, values=searched[row.config_id]) for row in summary.rows if row.complete]
    found = []
    for metric, described in summary.metrics.items():
        if not described.base.startswith(PREFIX) or described.direction != "minimize":
            continue
        for key in summary.searched:
            values = {row.values[key] for row in rows if key in row.values and is_numeric([row.values[key]])}
            mine = [row for row in rows if key in row.values and is_numeric([row.values[key]])]
            if len(values) > 1 and (points := _points(summary, mine, metric, key, _line_keys(mine, summary, key))):
                found.append(StepsTo(metric, key, _line_keys(mine, summary, key), points))
    return tuple(found)


def seed_steps(summary: Summary, row: Row, metric: str) -> dict[int, float]:
    """Return the step by which each seed had reached the threshold at all trained lengths, NaN if it failed.

    A metric without trained lengths counts at all lengths. Empty if the metric was not recorded.
    """
    band = summary.bands.get((row.config_id, metric, summary.objective.average))
    described = summary.measured[row.config_id].metrics.get(metric)
    if band is None or described is None:
        return {}
    return band.seed_values(described.trained_lengths or described.lengths, "max")


def _line_keys(rows: Sequence[Row], summary: Summary, key: str) -> tuple[str, ...]:
    """Return other searched keys, as many as together make at most MOST_LINES lines."""
    chosen: tuple[str, ...] = ()
    for other in summary.searched:
        if other == key or len({str(row.values.get(other)) for row in rows}) < 2:
            continue
        lines = {tuple(str(row.values.get(one)) for one in (*chosen, other)) for row in rows}
        if len(lines) <= MOST_LINES:
            chosen = (*chosen, other)
    return chosen


def _points(
    summary: Summary, rows: Sequence[Row], metric: str, key: str, line_keys: Sequence[str]
) -> tuple[Reached, ...]:
    """Return a point for each line and value, over the seeds of all its configurations."""
    together: dict[tuple[str, float], tuple[tuple[Any, ...], list[float]]] = {}
    for row in rows:
        line = tuple(row.values.get(other) for other in line_keys)
        of_seeds = seed_steps(summary, row, metric).values()
        together.setdefault((repr(line), float(row.values[key])), (line, []))[1].extend(of_seeds)
    found = []
    for (_, value), (line, steps) in sorted(together.items()):
        alive = sorted(step for step in steps if not math.isnan(step))
        if steps:
            outcome = over_seeds(steps, summary.objective.failed_seeds, "minimize").quartiles
            found.append(Reached(line, value, outcome, tuple(alive), len(steps) - len(alive)))
    return tuple(found)
