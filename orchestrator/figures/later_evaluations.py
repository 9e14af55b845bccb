"""Curves of kept weights that were evaluated after training: a figure for each setting of the task."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from orchestrator.figures import drawing
from orchestrator.figures.bands import draw_band, finite_line, shade_groups, shape_axes
from orchestrator.figures.drawing import PALETTE, printable
from orchestrator.results.later_evaluations import LaterEvaluation
from orchestrator.results.scoring.median_curves import Band
from orchestrator.results.summary import Summary
from orchestrator.wording import label


def later_figures(summary: Summary, folder: Path) -> tuple[Path, ...]:
    """Draw the later evaluations, those with the same task settings in one figure: later.png, later-<digest>.png."""
    groups: dict[str, list[LaterEvaluation]] = {}
    for one in summary.later_evaluations:
        groups.setdefault(json.dumps(one.task, sort_keys=True), []).append(one)
    return tuple(_later_figure(summary, group, folder / _name(task)) for task, group in groups.items())


def _name(task: str) -> str:
    return "later.png" if task == "{}" else f"later-{hashlib.sha256(task.encode()).hexdigest()[:8]}.png"


def _later_figure(summary: Summary, group: Sequence[LaterEvaluation], path: Path) -> Path:
    """Draw the judged average: a panel for each distribution of the judged metric, a colour for each configuration.

    Every evaluation is a median over seeds with quartiles. The medians of the sweep itself are dashed.
    """
    average = summary.objective.average
    judged = summary.metrics[summary.objective.metric].base
    metrics = list(dict.fromkeys(name for one in group for name in one.metrics_like(judged)))
    colours = {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(dict.fromkeys(one.config_id for one in group))}

    def draw() -> Figure:
        figure = Figure(figsize=(8.0 if len(metrics) == 1 else 0.8 + 4.4 * len(metrics), 4.6))
        for axes, metric in zip(figure.subplots(1, len(metrics), squeeze=False)[0], metrics, strict=True):
            _draw_panel(axes, summary, metric, group, colours)
            axes.set_ylabel(printable(f"{metric} ({average}), median over seeds"))
        title = f"{summary.name}: kept weights evaluated later; task: {group[0].setting}"
        figure.axes[0].set_title(printable(title), fontsize=10, loc="left", pad=16)
        figure.axes[0].legend(fontsize=8, frameon=False)
        return figure

    facts = [[one.key, one.sha256, one.failed, summary.by_config_id[one.config_id].groups] for one in group]
    own = [_own_band(summary, name, metric) for name in colours for metric in metrics]
    return drawing.save(path, draw, summary.name, summary.objective, summary.scale, facts, own)


def _draw_panel(
    axes: Axes,
    summary: Summary,
    metric: str,
    group: Sequence[LaterEvaluation],
    colours: dict[str, str],
) -> None:
    row = summary.by_config_id[group[0].config_id]
    bands = {one.key: one.bands.get((metric, summary.objective.average)) for one in group}
    drawn = [band for band in bands.values() if band is not None]
    own = {name: band for name in colours if (band := _own_band(summary, name, metric)) is not None}
    if metric in summary.measured[row.config_id].metrics:
        shade_groups(axes, summary.groups(row, metric), labels=True)
    for name, band in own.items():
        axes.plot(*finite_line(band), color=colours[name], linewidth=1, linestyle="--", zorder=2)
    if own:
        axes.plot([], [], color="#555555", linewidth=1, linestyle="--", label="in the sweep itself")
    named: set[str] = set()
    for one in group:
        if (band := bands[one.key]) is None:
            continue
        line = draw_band(axes, band, colours[one.config_id], prominent=one is group[0])
        if one.config_id not in named:
            lost = f", {one.failed} failed" if one.failed else ""
            line.set_label(printable(f"{label(one.number)} ({len(one.seeds)} seeds{lost})"))
            named.add(one.config_id)
    every = [*drawn, *own.values()]
    direction = next(one.measured.metrics[metric].direction for one in group if metric in one.measured.metrics)
    shape_axes(axes, every, [band.lengths for band in every], summary.scale, direction)


def _own_band(summary: Summary, config_id: str, metric: str) -> Band | None:
    return summary.bands.get((config_id, metric, summary.objective.average))
