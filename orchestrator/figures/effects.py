"""Draw the score of every configuration against a searched key, with its trend.

Numeric keys have binned medians with quartiles, categories have boxes.
"""

import json
import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from orchestrator.figures.drawing import (
    BLUE,
    CROSS_HEIGHT,
    FAILED_COLOR,
    PALETTE,
    escape_for_figure,
    frame_axes,
    make_logarithmic,
)
from orchestrator.results.analysis import Effect, compute_score_effects
from orchestrator.results.outcomes import collect_searched_values
from orchestrator.results.summary import Summary
from orchestrator.statistics.decades import is_logarithmic, spans_decades
from orchestrator.statistics.effects.rank_effects import is_numeric
from orchestrator.statistics.failed_seeds import get_worst_value
from orchestrator.statistics.quartiles import Quartiles, compute_quartiles
from orchestrator.statistics.trend import compute_binned_medians
from orchestrator.text.wording import compact_value, shorten_keys

GOLDEN_RATIO = 0.6180339887
TREND_COLOR = "#333333"
MIN_FOR_BOX = 4  # configurations
NAME_CHARACTERS = 56  # of all names side by side below a panel


@dataclass(frozen=True)
class Dot:
    """A configuration: the value of the key, its score with quartiles, and whether it ranks first."""

    value: Any
    outcome: Quartiles
    is_first: bool


@dataclass(frozen=True)
class Panel:
    """The score of configurations against a searched key."""

    label: str
    dots: tuple[Dot, ...]
    effect: Effect | None


def draw_effect(summary: Summary, key: str, axes: Axes) -> None:
    """Draw the score of every configuration against a searched key on `axes`, with quartiles over seeds."""
    panel = _make_panel(summary, key)
    domain, name = summary.searched[key], shorten_keys([*summary.searched])[key]  # as in tables
    worst = get_worst_value(summary.objective.direction)
    _scale_axes(axes, panel, summary)
    if domain not in ("choice", "grid") and is_numeric([dot.value for dot in panel.dots]):
        _draw_numbers(axes, name, panel, domain, worst)
    else:
        _draw_categories(axes, name, panel, worst)

    _leave_room_for_failed(axes, panel)
    axes.set_ylabel(escape_for_figure(panel.label), fontsize=9)
    axes.set_title(escape_for_figure(panel.effect.sentence if panel.effect else ""), fontsize=9, loc="left")


def _make_panel(summary: Summary, key: str) -> Panel:
    """Return the panel of a key: a dot for every configuration that has the key and a score."""
    values = collect_searched_values(summary)
    rows = [row for row in summary.rows if row.score_quartiles is not None and key in values.get(row.config_id, {})]
    return Panel(
        label=summary.score_label,
        dots=tuple(
            Dot(values[row.config_id][key], row.score_quartiles, row.rank == 1)
            for row in rows
            if row.score_quartiles is not None
        ),
        effect=next((effect for effect in compute_score_effects(summary) if effect.key == key), None),
    )


def _draw_numbers(axes: Axes, name: str, panel: Panel, domain: str, worst: float) -> None:
    """Draw the dots of the numeric key `name` on a scale that suits its domain, with binned medians as the trend."""
    # one_minus_log_uniform is logarithmic in the distance to 1, with values that grow to the right.
    complement = domain == "one_minus_log_uniform"
    x = [1.0 - float(dot.value) if complement else float(dot.value) for dot in panel.dots]
    _draw_points(axes, x, panel.dots)
    is_listed = domain in ("listed", "drawn")
    if domain in ("log_uniform", "one_minus_log_uniform") or (is_listed and spans_decades(np.array(x))):
        make_logarithmic(axes, "x", np.array(x))
    if complement:
        axes.invert_xaxis()
        axes.xaxis.set_major_formatter(lambda x, _: f"{1 - x:.10g}")
    if domain == "int_uniform":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))

    bins = compute_binned_medians(x, [dot.outcome.median for dot in panel.dots], worst)
    bins = [point for point in bins if math.isfinite(point.median)]
    if len(bins) > 1:
        centre = [point.x for point in bins]
        median = [point.median for point in bins]
        low, high = (
            [_replace_infinite(getattr(point, edge), point.median) for point in bins] for edge in ("q25", "q75")
        )
        axes.fill_between(centre, low, high, color=TREND_COLOR, alpha=0.12, linewidth=0, zorder=1)
        axes.plot(centre, median, color=TREND_COLOR, linewidth=1.8, zorder=4, label="trend")
    axes.set_xlabel(escape_for_figure(f"{name} (logarithmic in 1 − value)" if complement else name))


def _draw_categories(axes: Axes, name: str, panel: Panel, worst: float) -> None:
    """Draw the dots of each category beside each other, with a median and a box."""
    values = sorted({json.dumps(dot.value) for dot in panel.dots}, key=_make_sort_key)
    for position, value in enumerate(values):
        # Spread the dots by the golden ratio, the same in every run.
        dots = [dot for dot in panel.dots if json.dumps(dot.value) == value]
        width = 0.4 if len(dots) > 1 else 0.0
        _draw_points(axes, [position + width * ((i * GOLDEN_RATIO) % 1.0 - 0.5) for i in range(len(dots))], dots)

        # A box would suggest quartiles, which a few configurations do not have.
        outcomes = np.array([dot.outcome.median for dot in dots if not math.isnan(dot.outcome.median)])
        finite = outcomes[np.isfinite(outcomes)]
        if len(outcomes) < 2 or not len(finite):
            continue
        q25, median, q75 = compute_quartiles(outcomes, worst)
        if math.isfinite(median):
            axes.hlines(median, position - 0.3, position + 0.3, color=TREND_COLOR, linewidth=2, zorder=4)
            if len(outcomes) >= MIN_FOR_BOX:
                low, high = (float(np.clip(q, finite.min(), finite.max())) for q in (q25, q75))
                box: dict[str, Any] = {"linewidth": 1, "edgecolor": TREND_COLOR, "facecolor": "#33333318", "zorder": 1}
                axes.bar(position, high - low, 0.6, low, **box)

    # Values are sorted as JSON, but shown in their usual form.
    _label_categories(axes, [escape_for_figure(compact_value(json.loads(value))) for value in values])
    axes.set_xlim(-0.6, len(values) - 0.4)
    axes.set_xlabel(escape_for_figure(name))


def _label_categories(axes: Axes, names: Sequence[str]) -> None:
    """Write category names below an axis, vertically if a word does not fit between its neighbours."""
    # Names fill lines up to their neighbours, or vertical lines if a word is longer.
    room = NAME_CHARACTERS // len(names) - 1
    fits = all(len(word) <= room for name in names for word in name.split())
    vertical = max(24, len(names) * max(map(len, names)) // 20)  # characters of a line: more names have fewer lines
    lines = [textwrap.fill(name, room if fits else vertical) for name in names]
    axes.set_xticks(range(len(names)), lines, fontsize=8, rotation=0 if fits else 90)


def _draw_points(axes: Axes, x: Sequence[float], dots: Sequence[Dot]) -> None:
    """Draw medians with quartiles, the configuration ranked first as a star, infinite medians as crosses at the top."""
    points = [
        (position, dot.outcome, dot.is_first)
        for position, dot in zip(x, dots, strict=True)
        if math.isfinite(dot.outcome.median)
    ]
    if failed := [position for position, dot in zip(x, dots, strict=True) if not math.isfinite(dot.outcome.median)]:
        heights = [CROSS_HEIGHT] * len(failed)
        cross: dict[str, Any] = {"markersize": 7, "transform": axes.get_xaxis_transform(), "clip_on": False}
        axes.plot(failed, heights, "x", color=FAILED_COLOR, **cross)

    # The star of the first configuration comes last, over the other points.
    for first, color, marker, size in ((False, BLUE, "o", 5), (True, PALETTE[0], "*", 11)):
        drawn = [(position, outcome) for position, outcome, is_first in points if is_first == first]
        if drawn:
            positions = [position for position, _ in drawn]
            medians = [outcome.median for _, outcome in drawn]
            low = [_replace_infinite(outcome.q25, outcome.median) for _, outcome in drawn]
            high = [_replace_infinite(outcome.q75, outcome.median) for _, outcome in drawn]
            axes.vlines(positions, low, high, color=color, linewidth=1, alpha=0.45, capstyle="projecting")
            axes.plot(positions, medians, marker, color=color, markersize=size, zorder=5 if first else 3)


def _scale_axes(axes: Axes, panel: Panel, summary: Summary) -> None:
    """Set the scale of the y axis by the medians, and draw grid and frame."""
    medians = np.array([dot.outcome.median for dot in panel.dots], dtype=float)
    if is_logarithmic(summary.objective.direction, medians):
        make_logarithmic(axes, "y", medians)
    frame_axes(axes)


def _leave_room_for_failed(axes: Axes, panel: Panel) -> None:
    """Leave room above the points for crosses."""
    if any(not math.isfinite(dot.outcome.median) for dot in panel.dots):
        scale = axes.yaxis.get_transform()
        low, high = scale.transform(axes.get_ylim())
        axes.set_ylim(top=scale.inverted().transform([high + 0.12 * (high - low)])[0])


def _replace_infinite(value: float, substitute: float) -> float:
    """Return a value, or `substitute` if it is not finite."""
    return value if math.isfinite(value) else substitute


def _make_sort_key(value: str) -> tuple[int, float, str]:
    """Return the sort key of a category as JSON: numbers ascending, then other values in alphabetical order."""
    parsed = json.loads(value)
    return (0, float(parsed), "") if is_numeric([parsed]) else (1, 0.0, value)
