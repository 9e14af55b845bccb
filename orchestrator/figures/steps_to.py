"""Figures of the steps until a threshold was reached, against a searched number: median, quartiles and every seed.

Crosses at the upper edge stand for the seeds that never reached it, with their number.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from orchestrator.figures import drawing
from orchestrator.figures.drawing import EDGE, PALETTE, file_name, frame_axes, printable, with_gaps
from orchestrator.results.summary import Summary
from orchestrator.results.views.steps_to import Reached, StepsTo, steps_to
from orchestrator.statistics.decades import spans_decades
from orchestrator.wording import NOT_REACHED, compact_value, format_values


def steps_figures(summary: Summary, folder: Path) -> tuple[Path, ...]:
    """Draw a figure for every steps metric and every searched number."""
    return tuple(
        steps_figure(summary, one, folder / f"steps-{file_name(one.metric)}-{file_name(one.key)}.png")
        for one in steps_to(summary)
    )


def steps_figure(summary: Summary, found: StepsTo, path: Path) -> Path:
    """Draw one steps metric against one key, on a logarithmic axis unless the scale is linear."""
    lines: dict[str, list[Reached]] = {}
    for point in found.points:
        values = dict(zip(found.line_keys, point.line, strict=True))
        lines.setdefault(format_values(values), []).append(point)
    x = np.array([point.value for point in found.points])

    def draw() -> Figure:
        figure = Figure(figsize=(6.4, 4.4))
        axes = figure.subplots()
        finite = [step for point in found.points for step in point.steps if math.isfinite(step) and step > 0]
        linear = summary.scale == "linear"
        axes.set_yscale("linear" if linear else "log")
        if finite:
            axes.set_ylim(0 if linear else min(finite) / 1.4)
            axes.set_ylim(top=max(finite) * (1.1 + 0.1 * len(lines) if linear else 1.4 + 0.5 * len(lines)))
        axes.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
        if (x > 0).all() and spans_decades(x):
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter(lambda at, _: f"{at:g}")
        elif len(set(x)) <= 12:
            axes.set_xticks(sorted(set(x)), [compact_value(_plain(value)) for value in sorted(set(x))])
        for place, (name, points) in enumerate(lines.items()):
            _draw_line(axes, points, name, PALETTE[place % len(PALETTE)], place)
        frame_axes(axes)
        axes.set_xlabel(printable(found.key))
        axes.set_ylabel(printable(f"{found.metric} ({summary.objective.average}), at all trained lengths"), fontsize=9)
        crosses = (
            f"; ×: {NOT_REACHED}, by this share of the seeds" if any(point.never for point in found.points) else ""
        )
        axes.set_title(printable(f"median and quartiles over seeds{crosses}"), fontsize=9, loc="left")
        if len(lines) > 1:
            axes.legend(fontsize=8, frameon=False, loc="lower right")
        return figure

    return drawing.save(path, draw, found.metric, found.key, summary.objective.average, summary.scale, found.points)


def _draw_line(axes: Axes, points: Sequence[Reached], name: str, colour: str, place: int) -> None:
    reached = [point for point in points if math.isfinite(point.over_seeds.median)]
    top = axes.get_ylim()[1]
    for point in reached:
        high = point.over_seeds.q75 if math.isfinite(point.over_seeds.q75) else top  # beyond the axis: never reached
        axes.vlines(point.value, point.over_seeds.q25, high, color=colour, linewidth=4, alpha=0.3, zorder=2)
    median = with_gaps([point.over_seeds.median for point in points])
    axes.plot([point.value for point in points], median, "o-", color=colour, linewidth=1.8, label=printable(name))
    for point in points:
        seeds = [step for step in point.steps if math.isfinite(step)]
        axes.plot([point.value] * len(seeds), seeds, ".", color=colour, markersize=4, alpha=0.5, zorder=3)
        if point.never:
            height = EDGE - 0.05 * place
            both: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "clip_on": False, "color": colour}
            axes.plot(point.value, height, "x", markersize=7, **both)
            text = f"{point.never}/{len(point.steps) + point.failed}"
            axes.annotate(text, (point.value, height), (5, -3), axes.get_xaxis_transform(), "offset points", fontsize=7)


def _plain(value: float) -> float | int:
    return int(value) if float(value).is_integer() else value
