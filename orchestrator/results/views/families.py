"""Families of metrics: the values of metrics such as accuracy_carry_3 against the number in their names.

Medians are over seeds, of the judged average. A metric has no point at lengths without inputs of its kind.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from orchestrator.results.summary import Row, Summary
from orchestrator.statistics.failed_seeds import over_seeds


@dataclass(frozen=True, kw_only=True)
class FamilyPoint:
    """Median and quartiles over `counted` seeds of one configuration, and the values of the seeds that have one."""

    config_id: str
    index: int
    length: int
    q25: float
    median: float
    q75: float
    seeds: dict[int, float]
    counted: int


def family_names(summary: Summary) -> tuple[str, ...]:
    """Return the names of the families of all configurations."""
    return tuple(dict.fromkeys(name for one in summary.measured.values() for name in one.families))


def family_points(summary: Summary, name: str) -> list[FamilyPoint]:
    """Return the points of a family, sorted by configuration, length and index."""
    points = (point for row in summary.rows for point in _points(summary, row, name))
    place = {row.config_id: i for i, row in enumerate(summary.rows)}
    return sorted(points, key=lambda point: (place[point.config_id], point.length, point.index))


def _points(summary: Summary, row: Row, name: str) -> Iterator[FamilyPoint]:
    family = summary.measured[row.config_id].families.get(name)
    policy, lost = summary.objective.failed_seeds, _failed_seeds(summary, row)
    for index, metric in family.metrics.items() if family else ():
        band = summary.bands.get((row.config_id, metric, summary.objective.average))
        if band is None:
            continue
        for i, length in enumerate(band.lengths):
            seeds = {seed: values[i] for seed, values in band.seeds.items() if not math.isnan(values[i])}
            if seeds:
                found = over_seeds(
                    [*seeds.values(), *(math.nan for _ in lost)], policy, summary.metrics[metric].direction
                )
                yield FamilyPoint(
                    config_id=row.config_id,
                    index=index,
                    length=length,
                    q25=found.quartiles.q25,
                    median=found.median,
                    q75=found.quartiles.q75,
                    seeds=seeds,
                    counted=found.counted,
                )


def _failed_seeds(summary: Summary, row: Row) -> list[int]:
    """Return the seeds whose judged curve has no number."""
    band = summary.bands.get((row.config_id, *summary.objective_curve))
    return [seed for seed, values in band.seeds.items() if all(map(math.isnan, values))] if band else []
