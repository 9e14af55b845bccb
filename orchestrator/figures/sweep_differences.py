"""Draw the difference between sweeps against length, over their matched configurations, with its band."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from orchestrator.figures import drawing
from orchestrator.figures.bands import shade_groups
from orchestrator.figures.drawing import PALETTE, escape_for_figure, frame_axes, mask_infinite
from orchestrator.results.comparing.sweep_comparison import SweepComparison
from orchestrator.text.wording import counted


def difference_figure(comparisons: Sequence[SweepComparison], path: Path) -> Path:
    """Draw the median over seeds of first - second at each length for every comparison; return the path."""
    # Texts, and lengths to shade.
    first = comparisons[0]
    question = first.by_length[0].question
    groups = first.first.groups(first.matching.pairs[0][0].row, question.metric)
    band = ", with simultaneous 95 % band" if any(comparison.has_band for comparison in comparisons) else ""
    title = f"mean over the matched configurations, median over seeds{band}"

    def draw() -> Figure:
        figure = Figure(figsize=(8.0, 4.6))
        axes = figure.subplots()
        shade_groups(axes, groups, labels=True)
        axes.axhline(0, color="#333333", linewidth=1, zorder=2)
        lines = [
            _draw_difference(axes, comparison, PALETTE[number % len(PALETTE)])
            for number, comparison in enumerate(comparisons)
        ]
        lengths = [point.question.lengths[0] for comparison in comparisons for point in comparison.by_length]
        axes.set_xlim(min(lengths) - 0.5, max(lengths) + 0.5)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=12))
        axes.set_xlabel(escape_for_figure(first.first.axis))
        axes.set_ylabel(escape_for_figure(f"difference of {question.metric} ({question.average})"))
        axes.set_title(title, fontsize=10, loc="left", pad=16)
        labels = [_label(comparison) for comparison in comparisons]
        figure.legend(lines, labels, loc="outside lower center", fontsize=8, frameon=False)
        frame_axes(axes)
        return figure

    # The figure is redrawn if any of these facts has changed.
    points = [
        [_label(comparison), comparison.has_band, [_point(point.outcome) for point in comparison.by_length]]
        for comparison in comparisons
    ]
    lengths = [[point.question.lengths for point in comparison.by_length] for comparison in comparisons]
    return drawing.save_figure(path, draw, question, groups, title, points, lengths)


def _draw_difference(axes: Axes, comparison: SweepComparison, colour: str) -> Line2D:
    lengths = [point.question.lengths[0] for point in comparison.by_length]
    values = np.array([_point(point.outcome) for point in comparison.by_length])
    finite = values[np.isfinite(values)]
    line = mask_infinite(values[:, 0])  # infinite where failed seeds decide
    (drawn,) = axes.plot(lengths, line, color=colour, linewidth=1.8, marker="o", markersize=3, zorder=4)
    if comparison.has_band and len(finite):
        low, high = np.clip(values[:, 1:], finite.min(), finite.max()).T
        axes.fill_between(lengths, low, high, color=colour, alpha=0.18, linewidth=0, zorder=3)
    return drawn


def _point(outcome: Any) -> list[float]:
    return [outcome.difference, outcome.low, outcome.high]


def _label(comparison: SweepComparison) -> str:
    seeds = comparison.by_length[0]
    failed = seeds.first_failed + seeds.second_failed
    outcome = seeds.outcome
    unpaired = f"{outcome.n} and {outcome.n_second} seeds, not paired"
    how = counted(outcome.n, "paired seed") if outcome.paired else unpaired
    lost = f", {counted(failed, 'member')} failed" if failed else ""
    band = "" if comparison.has_band else ", no band"
    configurations = counted(len(comparison.matching.pairs), "configuration")
    return escape_for_figure(
        f"{comparison.first.name} - {comparison.second.name} ({configurations}, {how}{lost}{band})"
    )
