"""Draw median curves with their bands on axes, and shade groups of lengths.

The median over seeds is the main line, its quartiles are a band, the seeds thin lines; trained lengths are shaded,
selection lengths hatched.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from orchestrator.figures.drawing import CROSS_HEIGHT, GREY, PALETTE, frame_axes, mask_infinite, scale_values
from orchestrator.results.scoring.length_groups import LengthGroups
from orchestrator.results.scoring.median_curves import Band
from orchestrator.results.summary import ConfigurationResult

GROUP_STYLES: dict[str, dict[str, Any]] = {
    "trained": {"facecolor": "#E6E9ED", "linewidth": 0},
    "selection": {"facecolor": "#F7F8F9", "edgecolor": "#D5D9DE", "hatch": "////", "linewidth": 0},
}

# Estimated before anything is drawn: the part of a figure's width that its axes take, and the width of a character.
AXES_SHARE = 0.8
CHARACTER_INCHES = 0.065
FONT_SIZES = (8, 6)  # of the names of groups; CHARACTER_INCHES is of the first

_TOP_LINE, _BOTTOM_LINE = (2.4, 5.0), (4.0, 3.5)  # width and order of the first line, above or below the others

SOLID: tuple[tuple[Any, str], ...] = (("-", "o"),)
DISTINCT_IN_GREY: tuple[tuple[Any, str], ...] = (  # a style for each color of PALETTE
    *(("-", "o"), ("--", "s"), (":", "^"), ("-.", "D")),
    *(((0, (5, 1, 1, 1, 1, 1)), "v"), ((0, (1, 3)), "x"), ((0, (8, 2)), "P"), ((0, (3, 3)), "*")),
)


def plot_configurations(
    axes: Axes,
    bands: Mapping[str, Band],
    colored: Sequence[ConfigurationResult],
    grey: Sequence[ConfigurationResult],
    *,
    crosses: bool,
    styles: Sequence[tuple[Any, str]] = SOLID,
) -> list[Artist]:
    """Draw the `colored` configurations with band and seeds, and `grey` ones as medians.

    The first is on top, or as a wide line below others that have gaps, so that all are seen where they coincide.
    Configurations without a band in `bands` (by config_id) are skipped. `crosses` mark infinite medians; `styles` are
    line styles and markers, used in turn. Returns the drawn medians in the order of `colored`, then an artist with all
    grey ones.
    """
    # Draw all grey medians as a single artist: separate lines would take minutes.
    lines: list[Artist] = []
    if medians := [np.column_stack(get_finite_line(bands[row.config_id])) for row in grey if row.config_id in bands]:
        grey_lines = LineCollection(medians, colors=GREY, linewidths=0.7, alpha=0.6, zorder=2)
        axes.add_collection(grey_lines)
        axes.autoscale_view()
        lines = [grey_lines]

    # The first configuration is drawn last.
    for rank, row in reversed(list(enumerate(colored))):
        if row.config_id in bands:
            color = PALETTE[rank % len(PALETTE)]
            style, marker = styles[rank % len(styles)]
            width, order = _BOTTOM_LINE if len(styles) > 1 else _TOP_LINE
            line_style = {"linewidth": width if rank == 0 else 1.6, "zorder": order if rank == 0 else 4}
            line = draw_band(axes, bands[row.config_id], color, linestyle=style, marker=marker, **line_style)
            lines.insert(0, line)
            if crosses:
                mark_unreached(axes, bands[row.config_id], color)
    return lines


def mark_unreached(axes: Axes, band: Band, color: str) -> None:
    """Draw crosses at the upper edge for infinite medians, where too few seeds reached the threshold."""
    lengths = [length for length, median in zip(band.lengths, band.median, strict=True) if math.isinf(median)]
    edge = axes.get_xaxis_transform()
    axes.plot(lengths, [CROSS_HEIGHT] * len(lengths), "x", color=color, markersize=6, transform=edge, zorder=6)


def get_finite_line(band: Band) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Return lengths and medians of a band, with NaN for infinite medians."""
    return np.array(band.lengths), mask_infinite(band.median)


def draw_band(axes: Axes, band: Band, color: str, **line_style: Any) -> Line2D:
    """Draw the median of a configuration, its quartiles as a band, its seeds as thin lines; return the median line.

    `line_style` are options of the median line, such as linewidth and zorder.
    """
    # Thin lines of the seeds lie below the band.
    lengths, median = get_finite_line(band)
    for values in band.curves_by_seed.values():
        axes.plot(lengths, values, color=color, linewidth=0.5, alpha=0.25, zorder=2)

    # Infinite quartiles are cut off at the finite values.
    low, high = np.array(band.q25, dtype=float), np.array(band.q75, dtype=float)
    finite = [value for value in (*band.q25, *band.median, *band.q75) if math.isfinite(value)] or [0.0]
    low, high = (np.clip(edge, min(finite), max(finite)) for edge in (low, high))
    axes.fill_between(lengths, low, high, color=color, alpha=0.16, linewidth=0, zorder=3)

    (line,) = axes.plot(lengths, median, color=color, markersize=3, **line_style)
    return line


def shape_axes(axes: Axes, bands: Sequence[Band], lengths: Iterable[Sequence[int]], scale: str, direction: str) -> None:
    """Set scales, limits and grid of axes with `bands` at `lengths`; `direction` is the better one of the metric."""
    lines = (line for band in bands for line in (band.q25, band.q75, *band.curves_by_seed.values()))
    seed_values = (value for line in lines for value in line)
    scale_values(axes, scale, direction, np.concatenate([get_finite_line(band)[1] for band in bands]), seed_values)
    all_lengths = sorted({length for run in lengths for length in run})
    axes.set_xlim(all_lengths[0] - 0.5, all_lengths[-1] + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=12))
    axes.set_xlabel("length")
    frame_axes(axes)


def shade_groups(axes: Axes, groups: LengthGroups, *, labels: bool) -> None:
    """Shade the trained lengths and hatch the selection lengths; `labels` writes the names of groups above.

    Groups at the same position share a label, "trained, selection".
    """
    # Shade every run of lengths; the longest run of a group has its name.
    names_by_run = dict[tuple[int, int], list[str]]()
    for name, lengths in (("trained", groups.trained), ("selection", groups.selection), ("test", groups.test)):
        runs = find_consecutive_runs(lengths, groups.evaluated)
        for first, last in runs if name in GROUP_STYLES else ():
            axes.axvspan(first - 0.5, last + 0.5, zorder=0, **GROUP_STYLES[name])
        if runs:
            names_by_run.setdefault(max(runs, key=lambda run: run[1] - run[0]), []).append(name)

    if labels:
        texts = {run: ", ".join(names) for run, names in sorted(names_by_run.items())}
        _write_labels(axes, texts, groups.evaluated[-1] - groups.evaluated[0] + 1)


def _write_labels(axes: Axes, texts: Mapping[tuple[int, int], str], length_count: int) -> None:
    """Write a text above each run of lengths, (first, last), on axes that show `length_count` lengths."""
    # All texts are smaller if two of them would run together.
    figure = axes.get_figure(root=True)
    assert figure is not None, "axes without a figure cannot be drawn on"
    inches = AXES_SHARE * figure.get_figwidth() / length_count
    neighbors = list(itertools.pairwise(texts))
    size = FONT_SIZES[any(not _has_room(inches, texts, *pair, FONT_SIZES[0]) for pair in neighbors)]

    # Texts stand in the middle of their run; two that would still run together meet at their common border.
    anchors = {run: ((run[0] + run[1]) / 2, "center") for run in texts}
    for left, right in neighbors:
        if not _has_room(inches, texts, left, right, size):
            gap = CHARACTER_INCHES / 2 / inches
            if anchors[left][1] == "center":  # else it already begins at its other border
                anchors[left] = (left[1] + 0.5 - gap, "right")
            anchors[right] = (right[0] - 0.5 + gap, "left")

    for run, text in texts.items():
        x, side = anchors[run]
        axes.text(x, 1.01, text, transform=axes.get_xaxis_transform(), ha=side, fontsize=size, color="#555555")


def _has_room(
    inches: float, texts: Mapping[tuple[int, int], str], left: tuple[int, int], right: tuple[int, int], size: float
) -> bool:
    """Return whether the names of two runs of lengths fit side by side; `inches` is the width of one length."""
    room = inches * (sum(right) - sum(left)) / 2
    return room >= CHARACTER_INCHES * size / FONT_SIZES[0] * (len(texts[left]) + len(texts[right]) + 2) / 2


def find_consecutive_runs(lengths: Sequence[int], evaluated_lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Return `lengths` as (first, last) runs that are consecutive among all evaluated lengths.

    find_consecutive_runs((1, 2, 4), (1, 2, 3, 4)) -> [(1, 2), (4, 4)]
    """
    # Extend the last run as long as no evaluated length is missing.
    runs: list[tuple[int, int]] = []
    previous = None
    for length in evaluated_lengths:
        if length in lengths:
            runs = [*runs[:-1], (runs[-1][0], length)] if previous in lengths and runs else [*runs, (length, length)]
        previous = length
    return runs
