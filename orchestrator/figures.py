"""The figures of a sweep: median curves with quartile bands over seeds, and score against each hyperparameter.

Each function draws one PNG from a Summary and returns its path. The median over seeds is the main line, its quartiles a
band, the seeds thin lines behind it; trained lengths are shaded, the lengths used for selection hatched. The colours of
Okabe and Ito (2008) are told apart by colour-blind readers. Equal input gives equal bytes, and a figure whose input and
code have not changed is not drawn again.
"""

import hashlib
import json
import math
import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import LogFormatterSciNotation, MaxNLocator, NullFormatter
from PIL import Image, UnidentifiedImageError

from orchestrator.length_groups import LengthGroups
from orchestrator.summary import Band, Row, Summary
from orchestrator.wording import compact_value, printable, short_keys, three_digits

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#000000")
GREY = "#9A9A9A"
MANY, HIGHLIGHTED_OF_MANY = 8, 5
FAILED_COLOUR = "#B00020"
SHADES: dict[str, dict[str, Any]] = {
    "trained": {"facecolor": "#E6E9ED", "linewidth": 0},
    "selection": {"facecolor": "#F7F8F9", "edgecolor": "#D5D9DE", "hatch": "////", "linewidth": 0},
}
DECADES_FOR_LOG = 2.0
GOLDEN = 0.6180339887
FAILED_EDGE = 0.975  # height of the crosses, as a fraction of the axes


@dataclass(frozen=True)
class Drawn:
    """Where the figures of a sweep are: the comparison, and score against each searched key."""

    comparison: Path | None
    scores: dict[str, Path]


def draw_all(summary: Summary, folder: Path) -> Drawn:
    """Draw what the sweep has so far into `folder`."""
    shown = [row for row in summary.rows if (row.config_id, *summary.objective_curve) in summary.bands]
    comparison = comparison_figure(summary, folder / "comparison.png") if shown else None
    return Drawn(comparison=comparison, scores=score_figures(summary, folder))


def comparison_figure(summary: Summary, path: Path) -> Path:
    """The objective's curve of every configuration: the best in colour with band and seeds, the rest grey medians."""
    metric, average = summary.objective_curve
    rows = [row for row in summary.rows if (row.config_id, metric, average) in summary.bands]
    highlighted = MANY if len(rows) <= MANY else HIGHLIGHTED_OF_MANY
    coloured, grey = rows[:highlighted], rows[highlighted:]
    bands = {row.config_id: summary.bands[row.config_id, metric, average] for row in rows}

    def draw() -> Figure:
        legend_height = 0.20 * (len(coloured) + 2 + bool(grey))
        figure = Figure(figsize=(8.0, 4.6 + legend_height), layout="constrained")
        axes = figure.add_subplot()
        _shade(axes, rows[0].groups, labels=True)
        for row in grey:
            axes.plot(*_line(bands[row.config_id]), color=GREY, linewidth=0.7, alpha=0.6, zorder=2)
        for place, row in reversed(list(enumerate(coloured))):
            _draw_band(axes, bands[row.config_id], PALETTE[place % len(PALETTE)], prominent=place == 0)
        _curve_axes(axes, list(bands.values()), [band.lengths for band in bands.values()])
        axes.set_ylabel(printable(f"{metric} ({average}), median over seeds"))
        axes.set_title(printable(_comparison_title(summary, len(rows))), fontsize=10, loc="left", pad=16)
        _legend_table(figure, summary, coloured, grey)
        return figure

    facts = [_band_facts(band) for band in bands.values()]
    return _save(path, draw, [[_row_facts(row), row.groups] for row in rows], facts, summary)


def configuration_figure(summary: Summary, row: Row, path: Path) -> Path:
    """One configuration: a panel per headline metric (rows) and average (columns)."""
    panels = {(m, a): summary.bands.get((row.config_id, m, a)) for m in summary.headline for a in summary.averages}

    def draw() -> Figure:
        height, width = len(summary.headline), len(summary.averages)
        figure = Figure(figsize=(1.2 + 3.1 * width, 0.9 + 2.1 * height), layout="constrained")
        grid = figure.subplots(height, width, squeeze=False, sharex=True, sharey="row")
        for i, metric in enumerate(summary.headline):
            shown = [band for average in summary.averages if (band := panels[metric, average]) is not None]
            for j, average in enumerate(summary.averages):
                axes, band = grid[i][j], panels[metric, average]
                if band is None:
                    axes.set_visible(False)
                    continue
                _shade(axes, row.groups, labels=False)
                _draw_band(axes, band, PALETTE[j % len(PALETTE)], prominent=True)
                _curve_axes(axes, shown, [band.lengths])
                axes.set_xlabel("length" if i == height - 1 else "")
                axes.set_ylabel(printable(metric) if j == 0 else "")
                if i == 0:
                    axes.set_title(printable(average), fontsize=10)
        seeds = f"{row.seeds_run} seeds" + (f", {row.seeds_failed} failed" if row.seeds_failed else "")
        figure.suptitle(printable(f"{row.config_id} ({seeds})\n{_values(row, summary.searched)}"), fontsize=9)
        return figure

    facts = [_band_facts(band) if band else None for band in panels.values()]
    return _save(path, draw, [_row_facts(replace(row, rank=None)), row.groups], facts, None)


def score_figures(summary: Summary, folder: Path) -> dict[str, Path]:
    """Score against each searched key, one file per key; empty while no configuration has finished."""
    rows = [row for row in summary.rows if row.score is not None]
    if not rows:
        return {}
    return {
        key: score_figure(summary, key, rows, folder / f"score-{_file_name(key)}.png")
        for key in summary.searched
        if any(key in row.values for row in rows)
    }


def score_figure(summary: Summary, key: str, rows: Sequence[Row], path: Path) -> Path:
    """Score (median and quartiles over seeds) of every configuration against one hyperparameter."""
    rows = [row for row in rows if key in row.values]
    domain = summary.searched[key]
    numeric = all(_is_number(row.values[key]) for row in rows) and domain not in ("choice", "grid")

    def draw() -> Figure:
        figure = Figure(figsize=(5.0, 3.8), layout="constrained")
        axes = figure.add_subplot()
        _score_scale(axes, rows)
        (_score_against_number if numeric else _score_against_category)(axes, key, rows, domain)
        _mark_failed_edge(axes, rows)
        axes.set_ylabel(printable(summary.score_label), fontsize=9)
        effect = next((effect for effect in summary.effects if effect.key == key), None)
        axes.set_title(printable(effect.sentence if effect else ""), fontsize=9, loc="left")
        return figure

    return _save(path, draw, [_row_facts(row) for row in rows], [key, domain], summary)


def _score_against_number(axes: Axes, key: str, rows: Sequence[Row], domain: str) -> None:
    complement = domain == "one_minus_log_uniform"
    for row in rows:
        x = 1.0 - float(row.values[key]) if complement else float(row.values[key])
        _score_point(axes, x, row, best=row.rank == 1)
    if domain in ("log_uniform", "one_minus_log_uniform"):
        axes.set_xscale("log")
    if complement:  # values grow to the right, as in the correlation, on a log axis of their distance to one
        axes.invert_xaxis()
        axes.xaxis.set_major_formatter(lambda x, _: f"{1 - x:.10g}")
        axes.xaxis.set_minor_formatter(NullFormatter())
    if domain == "int_uniform":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel(printable(f"{key} (logarithmic in 1 − value)" if complement else key))


def _score_against_category(axes: Axes, key: str, rows: Sequence[Row], domain: str) -> None:
    values = sorted({json.dumps(row.values[key]) for row in rows}, key=_category_order)
    for place, value in enumerate(values):
        members = [row for row in rows if json.dumps(row.values[key]) == value]
        for i, row in enumerate(members):
            spread = (i * GOLDEN) % 1.0 - 0.5 if len(members) > 1 else 0.0  # scattered, and the same every time
            _score_point(axes, place + 0.4 * spread, row, best=row.rank == 1)
        scores = [row.score for row in members if row.score is not None and math.isfinite(row.score)]
        if len(scores) >= 2:
            axes.hlines(float(np.median(scores)), place - 0.3, place + 0.3, color="#333333", linewidth=2, zorder=4)
    axes.set_xticks(range(len(values)), [printable(compact_value(json.loads(value))) for value in values])
    axes.set_xlim(-0.6, len(values) - 0.4)
    axes.set_xlabel(printable(f"{key} (bar: median of the configurations)"))


def _score_point(axes: Axes, x: float, row: Row, *, best: bool) -> None:
    score, colour = row.score, PALETTE[1] if best else PALETTE[0]
    if score is None or not math.isfinite(score):
        axes.plot(
            [x],
            [FAILED_EDGE],
            "x",
            color=FAILED_COLOUR,
            markersize=7,
            transform=axes.get_xaxis_transform(),
            clip_on=False,
        )
        return
    low, high = (q if math.isfinite(q) else score for q in (row.score_q25, row.score_q75))
    axes.plot([x, x], [low, high], color=colour, linewidth=1, alpha=0.45, zorder=2)
    axes.plot([x], [score], "*" if best else "o", color=colour, markersize=11 if best else 5, zorder=5 if best else 3)


def _mark_failed_edge(axes: Axes, rows: Sequence[Row]) -> None:
    failed = sum(row.score is not None and not math.isfinite(row.score) for row in rows)
    handles = [
        Line2D([], [], marker="o", linestyle="-", linewidth=1, color=PALETTE[0], markersize=5),
        Line2D([], [], marker="*", linestyle="", color=PALETTE[1], markersize=10),
    ]
    names = ["configuration, quartiles over seeds", "best"]
    if failed:
        handles.append(Line2D([], [], marker="x", linestyle="", color=FAILED_COLOUR, markersize=7))
        names.append(f"no finite score ({failed})")
        low, high = axes.get_ylim()  # room above the points for the crosses
        linear = axes.get_yscale() == "linear"
        axes.set_ylim(low, high + 0.12 * (high - low) if linear else high * (high / low) ** 0.12)
    figure = axes.get_figure()
    assert isinstance(figure, Figure)
    figure.legend(handles, names, loc="outside lower center", fontsize=7.5, frameon=False, ncols=3, handletextpad=0.4)


def _score_scale(axes: Axes, rows: Sequence[Row]) -> None:
    scores = np.array([row.score for row in rows if row.score is not None], dtype=float)
    if spans_decades(scores):
        axes.set_yscale("log")
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def spans_decades(values: np.ndarray[Any, Any]) -> bool:
    """Whether `values` ask for a log axis: none negative, and the positive ones spread over two decades or more."""
    finite = values[np.isfinite(values)]
    positive = finite[finite > 0]
    if len(positive) < 2 or (finite < 0).any() or len(positive) < 0.8 * len(finite):
        return False
    return bool(math.log10(positive.max() / positive.min()) >= DECADES_FOR_LOG)


def _line(band: Band) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    median = np.array(band.median, dtype=float)
    return np.array(band.lengths), np.where(np.isfinite(median), median, np.nan)


def _draw_band(axes: Axes, band: Band, colour: str, *, prominent: bool) -> None:
    lengths, median = _line(band)
    for values in band.seeds.values():
        axes.plot(lengths, values, color=colour, linewidth=0.5, alpha=0.25, zorder=2)
    low, high = np.array(band.q25, dtype=float), np.array(band.q75, dtype=float)
    finite = [value for value in (*band.q25, *band.median, *band.q75) if math.isfinite(value)] or [0.0]
    low, high = (np.clip(edge, min(finite), max(finite)) for edge in (low, high))  # infinite where failed seeds count
    axes.fill_between(lengths, low, high, color=colour, alpha=0.16, linewidth=0, zorder=3)
    axes.plot(
        lengths,
        median,
        color=colour,
        linewidth=2.4 if prominent else 1.6,
        marker="o",
        markersize=3,
        zorder=5 if prominent else 4,
    )


def _curve_axes(axes: Axes, bands: Sequence[Band], lengths: Iterable[Sequence[int]]) -> None:
    medians = np.concatenate([_line(band)[1] for band in bands])
    if spans_decades(medians):
        axes.set_yscale("log")
        positive = medians[np.isfinite(medians) & (medians > 0)]
        axes.set_ylim(bottom=positive.min() / 2)
        axes.yaxis.set_major_formatter(LogFormatterSciNotation())
        axes.yaxis.set_minor_formatter(NullFormatter())
    every = sorted({length for run in lengths for length in run})
    axes.set_xlim(every[0] - 0.5, every[-1] + 0.5)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=12))
    axes.set_xlabel("length")
    axes.grid(alpha=0.25, linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)


def _shade(axes: Axes, groups: LengthGroups, *, labels: bool) -> None:
    for name, lengths in (("trained", groups.trained), ("selection", groups.selection), ("test", groups.test)):
        runs = consecutive_runs(lengths, groups.every)
        for first, last in runs if name in SHADES else ():
            axes.axvspan(first - 0.5, last + 0.5, zorder=0, **SHADES[name])
        if labels and runs:
            first, last = max(runs, key=lambda run: run[1] - run[0])
            axes.text(
                (first + last) / 2,
                1.01,
                name,
                transform=axes.get_xaxis_transform(),
                fontsize=8,
                color="#555555",
                ha="center",
            )


def consecutive_runs(lengths: Sequence[int], every: Sequence[int]) -> list[tuple[int, int]]:
    """`lengths` as (first, last) runs of neighbours among all evaluated lengths `every`.

    consecutive_runs((1, 2, 4), (1, 2, 3, 4)) -> [(1, 2), (4, 4)]
    """
    runs: list[tuple[int, int]] = []
    previous = None
    for length in every:
        if length in lengths:
            runs = [*runs[:-1], (runs[-1][0], length)] if previous in lengths and runs else [*runs, (length, length)]
        previous = length
    return runs


def _comparison_title(summary: Summary, shown: int) -> str:
    seeds = f"{summary.seeds_planned} seeds" if summary.seeds_planned != 1 else "1 seed"
    state = "" if summary.finished else f" (unfinished: {summary.configurations_finished} of {summary.planned})"
    return f"{summary.name}: {shown} configuration{'s' if shown != 1 else ''} × {seeds}{state}"


def _legend_table(figure: Figure, summary: Summary, coloured: Sequence[Row], grey: Sequence[Row]) -> None:
    """The legend as a table: one line per configuration, one column per searched value."""
    keys = [key for key in summary.searched if any(key in row.values for row in coloured)]
    names = short_keys(keys)
    header = ["", "score", *(names[key] for key in keys)]
    lines = [
        [
            f"{row.rank}." if row.rank else "-",
            three_digits(row.score),
            *(compact_value(row.values[key]) if key in row.values else "-" for key in keys),
        ]
        for row in coloured
    ]
    widths = [max(len(cell) for cell in column) for column in zip(header, *lines, strict=True)]

    def text(cells: Sequence[str]) -> str:
        return printable("  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True)))

    handles: list[Any] = [Patch(alpha=0.0)]
    handles += [
        Line2D([], [], color=PALETTE[i % len(PALETTE)], linewidth=2.2, marker="o", markersize=3)
        for i in range(len(lines))
    ]
    labels = [text(header), *map(text, lines)]
    if grey:
        handles.append(Line2D([], [], color=GREY, linewidth=0.7))
        labels.append(f"the other {len(grey)} configurations (medians)")
    size = min(8.0, 8.0 * 92 / max(len(label) for label in labels))
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        prop={"family": "DejaVu Sans Mono", "size": size},
        frameon=False,
        labelspacing=0.25,
        borderpad=0.1,
    )


def _values(row: Row, keys: Iterable[str]) -> str:
    names = short_keys([key for key in keys if key in row.values])
    return ", ".join(f"{name} {compact_value(row.values[key])}" for key, name in names.items())


def _file_name(key: str) -> str:
    return "".join(c if (c.isalnum() and c.isascii()) or c in "._-" else "_" for c in key)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _category_order(value: str) -> tuple[int, float, str]:
    parsed = json.loads(value)
    return (0, float(parsed), "") if _is_number(parsed) else (1, 0.0, value)


def _row_facts(row: Row) -> list[Any]:
    return [
        row.config_id,
        row.rank,
        row.score,
        row.score_q25,
        row.score_q75,
        row.failed,
        row.seeds_run,
        row.seeds_failed,
        row.values,
    ]


def _band_facts(band: Band) -> list[Any]:
    return [band.lengths, band.median, band.q25, band.q75, sorted(band.seeds.items())]


def _save(path: Path, draw: Any, rows: Any, data: Any, summary: Summary | None) -> Path:
    """Draw and write unless `path` already holds the figure of the same facts drawn by the same code."""
    about: list[Any] = []
    if summary is not None:
        about = [summary.name, summary.score_label, summary.searched, summary.finished, summary.configurations_finished]
        about += [effect.sentence for effect in summary.effects]
    facts = json.dumps([about, rows, data], sort_keys=True, default=repr)
    code = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
    digest = hashlib.sha256(f"{mpl.__version__}\n{code}\n{facts}".encode()).hexdigest()
    if _drawn_digest(path) != digest:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}")  # others may draw it too
        draw().savefig(temporary, format="png", dpi=150, metadata={"Software": None, "lengthwise": digest})
        temporary.replace(path)
    return path


def _drawn_digest(path: Path) -> str | None:
    try:
        with Image.open(path) as image:
            return image.info.get("lengthwise")
    except (OSError, UnidentifiedImageError):
        return None
