"""What the claims about set complement share: errors of weight averages, and curves in numbers."""

from collections.abc import Mapping

import pandas as pd

from orchestrator.studies.claims import Table
from orchestrator.studies.measures import Sweep

TV = "total_variation"


def curves_in_numbers(sweep: Sweep, arms: Mapping[str, tuple[list[str], str]]) -> Table:
    """The median curves of some arms, each configurations and an average, at a dozen lengths."""
    shown = [s for s in sweep.lengths if s in sweep.selection or s % 2 or s == sweep.lengths[-1]]
    shown = [s for s in shown if s <= 5 or s in sweep.selection or s == sweep.lengths[-1] or s % 4 == 3]
    rows = [
        (label, *sweep.curve(TV, average, names).median(axis=1).loc[shown]) for label, (names, average) in arms.items()
    ]
    title = "total variation by length, median over members"
    return Table(title=title, head=("arm", *map(str, shown)), rows=rows)


def gain(
    sweep: Sweep, first: str, second: str, lengths: tuple[int, ...], settings: tuple[str, ...], metric: str = TV
) -> pd.DataFrame:
    """The metric of one average minus that of another for the same members."""
    table = sweep.members(metric, first, lengths, settings=settings)
    other = sweep.members(metric, second, lengths)
    return table.assign(value=table["value"] - other["value"])


def zeros(table: pd.DataFrame) -> pd.DataFrame:
    """The same members with no effect."""
    return table[["config_id", "seed"]].assign(value=0.0)


def level(sweep: Sweep, name: str, metric: str, average: str, lengths: tuple[int, ...] | None = None) -> float:
    """The median over seeds of a metric at the test lengths, or others."""
    rows = sweep.members(metric, average, lengths or sweep.test)
    return float(rows[rows["config_id"] == name]["value"].median())


def best_average(sweep: Sweep, labels: list[str], names: list[str]) -> str:
    """The average with the least median error over members at the selection lengths."""

    def error(label: str) -> float:
        rows = sweep.members(TV, label, sweep.selection)
        return float(rows[rows["config_id"].isin(names)]["value"].median())

    return min(labels, key=error)
