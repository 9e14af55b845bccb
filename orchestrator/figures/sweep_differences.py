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
from orchestrator.text.wording import format_count, format_metric


def draw_difference_figure(comparisons: Sequence[SweepComparison], path: Path) -> Path:
    """Draw the median over seeds of first - second at each length for every comparison; return the path."""
    # All comparisons are of the first sweep, whose lengths are shaded.
    comparison = comparisons[0]
    question = comparison.by_length[0].question
    groups = comparison.first.find_length_groups(comparison.matching.pairs[0][0].row, question.metric)
    axis = comparison.first.axis
    band = ", with simultaneous 95 % band" if any(comparison.has_band for comparison in comparisons) else ""
    title = f"mean over the matched configurations, median over seeds{band}"

    # Called only if the figure must be drawn again.
    def draw() -> Figure:
        figure = Figure(figsize=(8.0, 4.6))
        axes = figure.subplots()
        shade_groups(axes, groups, labels=True)
        axes.axhline(0, color="#333333", linewidth=1, zorder=2)
        lines = [
            _draw_difference(axes, comparison, PALETTE[number % len(PALETTE)])
            for number, comparison in enumerate(comparisons)
        ]

        # Below the axes the legend hides no line, however many there are.
        lengths = [point.question.lengths[0] for comparison in comparisons for point in comparison.by_length]
        axes.set_xlim(min(lengths) - 0.5, max(lengths) + 0.5)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=12))
        axes.set_xlabel(escape_for_figure(axis))
        difference = f"difference of {format_metric(question.metric, question.average)}"
        axes.set_ylabel(escape_for_figure(difference + _describe_sign(comparison)))
        axes.set_title(title, fontsize=10, loc="left", pad=16)
        labels = [_make_label(comparison) for comparison in comparisons]
        figure.legend(lines, labels, loc="outside lower center", fontsize=8, frameon=False)
        frame_axes(axes)
        return figure

    # Redraw the figure if any of these facts has changed.
    points = [
        [_make_label(comparison), comparison.has_band, [_list_ends(point.outcome) for point in comparison.by_length]]
        for comparison in comparisons
    ]
    lengths = [[point.question.lengths for point in comparison.by_length] for comparison in comparisons]
    return drawing.save_figure(path, draw, question, groups, title, points, lengths)


def _describe_sign(comparison: SweepComparison) -> str:
    """Return a line for the axis that says on which side of 0 the first sweep is better; empty without a direction."""
    side = {"minimize": "below", "maximize": "above"}.get(comparison.by_length[0].question.direction)
    return f"\n{side} 0: {comparison.first.name} is better" if side else ""


def _draw_difference(axes: Axes, comparison: SweepComparison, color: str) -> Line2D:
    """Draw the difference at each length with its band; return the line."""
    # The line has gaps for differences that failed seeds make infinite.
    lengths = [point.question.lengths[0] for point in comparison.by_length]
    values = np.array([_list_ends(point.outcome) for point in comparison.by_length])
    finite = values[np.isfinite(values)]
    differences = mask_infinite(values[:, 0])
    (line,) = axes.plot(lengths, differences, color=color, linewidth=1.8, marker="o", markersize=3, zorder=4)

    # The band is cut off at the finite values.
    if comparison.has_band and len(finite):
        low, high = np.clip(values[:, 1:], finite.min(), finite.max()).T
        axes.fill_between(lengths, low, high, color=color, alpha=0.18, linewidth=0, zorder=3)
    return line


def _list_ends(outcome: Any) -> list[float]:
    """Return a difference with the ends of its interval."""
    return [outcome.difference, outcome.low, outcome.high]


def _make_label(comparison: SweepComparison) -> str:
    """Return the legend of a comparison: names of the sweeps, and numbers of configurations and seeds."""
    # All lengths have the same seeds, so the first one is described.
    first_length = comparison.by_length[0]
    failed = first_length.first_failed + first_length.second_failed
    outcome = first_length.outcome
    unpaired = f"{outcome.n} and {outcome.n_second} seeds, not paired"
    seeds = format_count(outcome.n, "paired seed") if outcome.paired else unpaired
    failures = f", {format_count(failed, 'member')} failed" if failed else ""
    band = "" if comparison.has_band else ", no band"
    configurations = format_count(len(comparison.matching.pairs), "configuration")
    return escape_for_figure(
        f"{comparison.first.name} - {comparison.second.name} ({configurations}, {seeds}{failures}{band})"
    )
