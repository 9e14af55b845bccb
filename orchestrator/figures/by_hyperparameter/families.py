"""Figures of families of metrics: the values of metrics such as accuracy_carry_3 against the number in their names.

One line for each configuration, median over seeds of the judged average, in one panel per length.
"""

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from orchestrator.figures import drawing
from orchestrator.figures.drawing import GREY, PALETTE, file_name, frame_axes, printable, scale_values, with_gaps
from orchestrator.figures.legend import coloured_and_grey, legend_height, legend_table
from orchestrator.results.scoring.length_groups import LengthGroups, few_lengths
from orchestrator.results.summary import Summary
from orchestrator.results.views.families import FamilyPoint, family_names, family_points


def family_figures(summary: Summary, folder: Path) -> tuple[Path, ...]:
    """Draw a figure for every family that the sweep has numbers of."""
    return tuple(
        family_figure(summary, name, points, folder / f"family-{file_name(name)}.png")
        for name in family_names(summary)
        if (points := family_points(summary, name))
    )


def family_figure(summary: Summary, name: str, points: Sequence[FamilyPoint], path: Path) -> Path:
    """Draw the metrics of a family against their numbers, one panel per length, the first configuration with a band."""
    families = [one.families[name] for one in summary.measured.values() if name in one.families]
    metrics = {metric for family in families for metric in family.metrics.values()}
    rows = [row for row in summary.rows if (row.config_id, *summary.objective_curve) in summary.bands]
    coloured, grey = coloured_and_grey(rows)
    colours = {row.config_id: PALETTE[i % len(PALETTE)] for i, row in enumerate(coloured)}
    own = ((row, metric) for row in rows for metric in sorted(metrics))
    groups = next(summary.groups(*one) for one in own if one[1] in summary.measured[one[0].config_id].metrics)
    lengths = few_lengths(groups, {point.length for point in points})
    directions = {summary.direction(metric) for metric in metrics}
    direction = directions.pop() if len(directions) == 1 else "none"

    def draw() -> Figure:
        size = (max(6.4, 0.8 + 2.6 * len(lengths)), 3.4 + legend_height(coloured, grey))
        figure = Figure(figsize=size)
        panels = figure.subplots(1, len(lengths), squeeze=False, sharex=True, sharey=True)[0]
        for axes, length in zip(panels, lengths, strict=True):
            for row in reversed(rows):
                mine = [point for point in points if (point.config_id, point.length) == (row.config_id, length)]
                _draw_line(axes, mine, colours.get(row.config_id), prominent=row is rows[0])
            axes.set_title(f"length {length} ({_group(groups, length)})", fontsize=9)
            axes.set_xlabel(printable(families[0].label))
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8, min_n_ticks=1))
            frame_axes(axes)
        if all(point.q25 >= 0 for point in points):
            panels[0].set_ylim(bottom=-0.02 * panels[0].get_ylim()[1])
        scale_values(panels[0], summary.scale, direction, np.array([point.median for point in points]))
        panels[0].set_ylabel(
            printable(f"{_stem(metrics)} ({summary.objective.average}), median over seeds"), fontsize=8
        )
        figure.suptitle(printable(f"{summary.name}: {_stem(metrics)} by {families[0].label}"), fontsize=10)
        legend_table(figure, summary, coloured, grey)
        return figure

    about = [summary.name, summary.searched, families[0].label, sorted(metrics), summary.objective_curve, direction]
    listed = [[row.config_id, row.rank, row.score, row.values] for row in rows]
    return drawing.save(path, draw, about, groups, listed, points, summary.scale)


def _draw_line(axes: Axes, points: Sequence[FamilyPoint], colour: str | None, *, prominent: bool) -> None:
    """Draw one configuration in one panel: its median, and if it is prominent its quartiles and every seed."""
    index = [point.index for point in points]
    median = with_gaps([point.median for point in points])
    if colour is None:
        axes.plot(index, median, color=GREY, linewidth=0.7, alpha=0.6, zorder=2)
        return
    if prominent:
        for seed in sorted({seed for point in points for seed in point.seeds}):
            values = [point.seeds.get(seed, math.nan) for point in points]
            axes.plot(index, values, color=colour, linewidth=0.5, alpha=0.35, zorder=2)
        low, high = (with_gaps([getattr(point, edge) for point in points]) for edge in ("q25", "q75"))
        axes.fill_between(index, low, high, color=colour, alpha=0.16, linewidth=0, zorder=3)
    width = 2.4 if prominent else 1.6
    axes.plot(index, median, color=colour, linewidth=width, marker="o", markersize=3, zorder=5 if prominent else 4)


def _group(groups: LengthGroups, length: int) -> str:
    names = [name for name in ("selection", "trained", "test") if length in getattr(groups, name)]
    return names[0] if names else "neither trained nor test"


def _stem(metrics: Iterable[str]) -> str:
    """Return the common part of metric names: exact_match_run_2, exact_match_run_7 -> exact_match_run."""
    return min((metric.rpartition("_")[0] for metric in metrics), key=len)
