"""Figures of pairs of metrics: a measured value against a predicted one, if the task names such a pair.

One point for each configuration and length, median over seeds of the judged weight average.
"""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from orchestrator.figures import drawing
from orchestrator.figures.drawing import file_name, frame_axes, printable
from orchestrator.results.summary import Summary
from orchestrator.statistics.decades import is_logarithmic

MARKERS = {"trained": "o", "beyond": "^"}


@dataclass(frozen=True)
class PairPoint:
    """Medians over the seeds of one configuration at one length."""

    config_id: str
    length: int
    predicted: float
    measured: float
    trained: bool


def pair_figures(summary: Summary, folder: Path) -> tuple[Path, ...]:
    """Draw a figure for every pair of metrics with finite medians."""
    return tuple(
        pair_figure(summary, measured, predicted, folder / f"pair-{file_name(measured)}-{file_name(predicted)}.png")
        for measured, predicted in summary.pairs
        if pair_points(summary, measured, predicted)
    )


def pair_points(summary: Summary, measured: str, predicted: str) -> list[PairPoint]:
    """Return the points of a pair with a finite median of both metrics."""
    points = []
    for row in summary.rows:
        bands = [
            summary.bands.get((row.config_id, metric, summary.objective.average)) for metric in (measured, predicted)
        ]
        if bands[0] is None or bands[1] is None:
            continue
        trained = summary.groups(row, measured).trained
        second = dict(zip(bands[1].lengths, bands[1].median, strict=True))
        for length, value in zip(bands[0].lengths, bands[0].median, strict=True):
            if length in second and math.isfinite(value) and math.isfinite(second[length]):
                points.append(PairPoint(row.config_id, length, second[length], value, length in trained))
    return points


def pair_figure(summary: Summary, measured: str, predicted: str, path: Path) -> Path:
    """Draw measured against predicted values, coloured by length, with the line of equality."""
    points = pair_points(summary, measured, predicted)

    def draw() -> Figure:
        figure = Figure(figsize=(6.4, 5.2))
        axes, bar = figure.subplots(1, 2, width_ratios=(24, 1))
        lengths = [point.length for point in points]
        values = np.array([(point.predicted, point.measured) for point in points])
        both_log = bool((values > 0).all()) and any(is_logarithmic(summary.scale, "none", side) for side in values.T)
        if both_log:
            axes.set_xscale("log")
            axes.set_yscale("log")
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_formatter(lambda value, _: f"{value:g}")
        shades: dict[str, Any] = {"cmap": "viridis", "vmin": min(lengths), "vmax": max(max(lengths), min(lengths) + 1)}
        for name, marker in MARKERS.items():
            chosen = [point for point in points if point.trained == (name == "trained")]
            if chosen:
                axes.scatter(
                    [point.predicted for point in chosen],
                    [point.measured for point in chosen],
                    c=[point.length for point in chosen],
                    marker=marker,
                    s=22,
                    linewidths=0,
                    alpha=0.85,
                    label=f"{name} lengths" if name == "trained" else "untrained lengths",
                    zorder=3,
                    **shades,
                )
        ends = [values.min(), values.max()]
        axes.plot(ends, ends, color="#333333", linewidth=1, linestyle="--", label="equality", zorder=2)
        figure.colorbar(axes.collections[0], cax=bar, label="length", ticks=MaxNLocator(integer=True, nbins=8))
        axes.set_xlabel(printable(f"{predicted} (predicted)"))
        axes.set_ylabel(printable(f"{measured} (measured)"))
        axes.set_title(printable(_title(summary, points)), fontsize=9, loc="left")
        axes.legend(fontsize=8, frameon=False)
        frame_axes(axes)
        return figure

    return drawing.save(path, draw, measured, predicted, _title(summary, points), points, summary.scale)


def _title(summary: Summary, points: list[PairPoint]) -> str:
    beyond = [point for point in points if not point.trained]
    above = sum(point.measured >= point.predicted for point in beyond)
    return (
        f"{summary.name} ({summary.objective.average}): one point per configuration and length, median over seeds;\n"
        f"at untrained lengths {above} of {len(beyond)} points are on or above equality"
    )
