"""Draw the judged metric against the training step, and mark the chosen evaluation of every seed."""

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from orchestrator.figures import drawing
from orchestrator.figures.drawing import PALETTE, frame_axes, printable, with_gaps
from orchestrator.results.scoring.last_and_best import LastAndBest
from orchestrator.results.scoring.objective import judged_over_seeds
from orchestrator.results.summary import Row, Summary
from orchestrator.wording import format_values, label, spans

SHOWN = 4
NAME_WIDTH = 55  # characters above one panel
MARKED = PALETTE[1]


def last_and_best_figure(summary: Summary, path: Path) -> Path | None:
    """Draw the first configurations by score, one in each row of panels; None if no seed was evaluated twice."""
    shown = [one for one in summary.last_and_best if one.steps][:SHOWN]
    if not shown:
        return None
    tested = any(one.test for one in shown)

    def draw() -> Figure:
        figure = Figure(figsize=(9.0 if tested else 5.2, 0.9 + 2.0 * len(shown)))
        grid = figure.subplots(len(shown), 1 + tested, squeeze=False, sharex=True, sharey="col")
        for line, one in zip(grid, shown, strict=True):
            row = summary.by_config_id[one.config_id]
            panels = [("selection", summary.objective.lengths, one.selection)]
            panels += [("test", row.groups.test, one.test)] if tested else []
            for axes, (group, lengths, seeds) in zip(line, panels, strict=True):
                _draw(axes, one, seeds, summary)
                name = f"{_name(row, summary, NAME_WIDTH * len(panels))}\n" if group == "selection" else ""
                axes.set_title(printable(f"{name}{group} lengths {spans(lengths)}"), fontsize=8.5, loc="left")
        for axes, values in zip(grid[0], _by_column(shown, tested), strict=True):
            drawing.scale_values(axes, summary.scale, summary.objective.direction, values)
        for axes in grid[-1]:
            axes.set_xlabel("training step")
        figure.supylabel(printable(f"{summary.objective.metric} ({summary.objective.average})"), fontsize=9)
        _legend(figure)
        return figure

    facts = [[one.config_id, one.evaluated, one.selection, one.test, one.steps] for one in shown]
    about = [summary.objective_curve, summary.objective.lengths, summary.searched, summary.objective.failed_seeds]
    about += [summary.objective.direction, summary.scale]
    rows = [summary.by_config_id[one.config_id] for one in shown]
    places = [[row.rank, row.number, row.values, row.groups] for row in rows]
    return drawing.save(path, draw, about, places, facts)


def _draw(axes: Axes, one: LastAndBest, seeds: Mapping[int, Sequence[float]], summary: Summary) -> None:
    steps = np.array(one.evaluated)
    for seed, values in seeds.items():
        axes.plot(steps, values, color=PALETTE[0], linewidth=0.6, alpha=0.35, zorder=2)
        if seed in one.steps:
            at = one.evaluated.index(one.steps[seed])
            axes.plot([steps[at]], [values[at]], "o", color=MARKED, markersize=4, alpha=0.8, zorder=4)
    medians = [judged_over_seeds(at, summary.objective).median for at in zip(*seeds.values(), strict=True)]
    axes.plot(steps, with_gaps(medians), color=PALETTE[0], linewidth=2.0, zorder=3)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    frame_axes(axes)


def _by_column(shown: Sequence[LastAndBest], tested: bool) -> list[np.ndarray[Any, Any]]:
    columns = [[one.selection for one in shown]] + ([[one.test for one in shown]] if tested else [])
    return [np.array([v for seeds in column for line in seeds.values() for v in line]) for column in columns]


def _legend(figure: Figure) -> None:
    handles = [
        Line2D([], [], color=PALETTE[0], linewidth=2.0),
        Line2D([], [], color=PALETTE[0], linewidth=0.6, alpha=0.6),
        Line2D([], [], color=MARKED, marker="o", linestyle="", markersize=4),
    ]
    names = ["median over seeds", "one seed", "evaluation of a seed chosen at the selection lengths"]
    figure.legend(handles, names, loc="outside lower center", fontsize=8, frameon=False, ncols=3)


def _name(row: Row, summary: Summary, width: int) -> str:
    """Return rank, label and as many searched values of a configuration as fit into one line above its panels."""
    values = format_values(row.values, summary.searched)
    return textwrap.shorten(f"{row.rank or '-'}. {label(row.number)} {values}", width, placeholder=" ...")
