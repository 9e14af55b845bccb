"""The figures of a sweep, and of them the median curves with quartile bands over seeds.

Each function draws one PNG from a Summary and returns its path. The median over seeds is the main line, its quartiles a
band, the seeds thin lines behind it; trained lengths are shaded, the lengths used for selection hatched.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from orchestrator.figures import drawing
from orchestrator.figures.drawing import EDGE, GREY, PALETTE, printable, spans_decades
from orchestrator.figures.families import family_figures
from orchestrator.figures.hyperparameters import score_figures
from orchestrator.figures.last_and_best import last_and_best_figure
from orchestrator.figures.legend import coloured_and_grey, legend_height, legend_table
from orchestrator.figures.maps import map_figures
from orchestrator.figures.pairs import pair_figures
from orchestrator.figures.steps_to import steps_figures
from orchestrator.record.state.lineage import CONFIRMS
from orchestrator.results.scoring.length_groups import LengthGroups
from orchestrator.results.scoring.median_curves import Band
from orchestrator.results.summary import Row, Summary
from orchestrator.wording import NOT_REACHED, compact_value, label, short_keys

SHADES: dict[str, dict[str, Any]] = {
    "trained": {"facecolor": "#E6E9ED", "linewidth": 0},
    "selection": {"facecolor": "#F7F8F9", "edgecolor": "#D5D9DE", "hatch": "////", "linewidth": 0},
}


@dataclass(frozen=True)
class Drawn:
    """Where the figures are: the comparison, outcomes against each searched key, measured and predicted, families, maps
    of weights, last and best evaluations, steps until something was reached."""

    comparison: Path | None
    scores: dict[str, Path]
    pairs: tuple[Path, ...] = ()
    families: tuple[Path, ...] = ()
    maps: tuple[Path, ...] = ()
    last_and_best: Path | None = None
    steps: tuple[Path, ...] = ()

    @property
    def all(self) -> tuple[Path, ...]:
        """Every figure."""
        first = [path for path in (self.comparison, self.last_and_best) if path is not None]
        return (*first, *self.scores.values(), *self.pairs, *self.steps, *self.families, *self.maps)


def draw_all(summary: Summary, folder: Path) -> Drawn:
    """Draw what the sweep has so far into `folder`."""
    shown = [row for row in summary.rows if (row.config_id, *summary.objective_curve) in summary.bands]
    comparison = comparison_figure(summary, folder / "comparison.png") if shown else None
    several = summary.configurations_finished > 1
    return Drawn(
        comparison=comparison,
        scores=score_figures(summary, folder) if several and CONFIRMS not in summary.provenance else {},
        pairs=pair_figures(summary, folder),
        families=family_figures(summary, folder),
        last_and_best=last_and_best_figure(summary, folder / "evaluations.png"),
        maps=map_figures(summary, folder),
        steps=steps_figures(summary, folder),
    )


def comparison_figure(summary: Summary, path: Path) -> Path:
    """The objective's curve of every configuration: the first in colour with band and seeds, the rest grey medians.

    A panel for each distribution that the judged metric has.
    """
    average = summary.objective.average
    rows = [row for row in summary.rows if (row.config_id, *summary.objective_curve) in summary.bands]
    coloured, grey = coloured_and_grey(rows)
    bands: dict[str, dict[str, Band]] = {}
    for metric in summary.distributions:
        found = {row.config_id: summary.bands.get((row.config_id, metric, average)) for row in rows}
        if of_metric := {config_id: band for config_id, band in found.items() if band}:
            bands[metric] = of_metric
    every = [band for of_metric in bands.values() for band in of_metric.values()]

    def draw() -> Figure:
        width = 8.0 if len(bands) == 1 else 0.8 + 4.4 * len(bands)
        figure = Figure(figsize=(width, 4.6 + legend_height(coloured, grey)))
        grid = figure.subplots(1, len(bands), squeeze=False, sharey=True)[0]
        for axes, (metric, of) in zip(grid, bands.items(), strict=True):
            _shade(axes, summary.groups(next(row for row in rows if row.config_id in of), metric), labels=True)
            for row in grey:
                if row.config_id in of:
                    axes.plot(*_line(of[row.config_id]), color=GREY, linewidth=0.7, alpha=0.6, zorder=2)
            for place, row in reversed(list(enumerate(coloured))):
                if row.config_id in of:
                    _draw_band(axes, of[row.config_id], PALETTE[place % len(PALETTE)], prominent=place == 0)
                    if metric in summary.unreached:
                        _mark_unreached(axes, of[row.config_id], PALETTE[place % len(PALETTE)])
            _curve_axes(axes, every, [band.lengths for band in of.values()])
            if len(bands) > 1:
                judged = ", judged" if metric == summary.objective.metric else ""
                axes.set_xlabel(printable(f"length ({metric}{judged})"))
        first = figure.axes[0]
        crosses = f" (×: {NOT_REACHED})" if summary.unreached & bands.keys() else ""
        first.set_ylabel(printable(f"{summary.judged_name}, median over seeds{crosses}"))
        first.set_title(printable(_comparison_title(summary, len(rows))), fontsize=10, loc="left", pad=16)
        legend_table(figure, summary, coloured, grey)
        return figure

    facts = [[metric, *map(_band_facts, of.values())] for metric, of in bands.items()]
    about = [summary.name, summary.searched, summary.finished, summary.configurations_finished, summary.judged_name]
    about.append(sorted(summary.unreached & bands.keys()))
    groups = [[summary.groups(row, metric) for metric, of in bands.items() if row.config_id in of] for row in rows]
    return drawing.save(path, draw, about, [_row_facts(row) for row in rows], groups, facts)


def configuration_figure(summary: Summary, row: Row, path: Path) -> Path:
    """One configuration: a panel per headline metric (rows) and average (columns).

    The distributions of a metric are rows of one scale. Without any curve the panels are empty.
    """
    panels = {(m, a): summary.bands.get((row.config_id, m, a)) for m in summary.headline for a in summary.averages}
    shown = [m for m in summary.headline if any(panels[m, a] for a in summary.averages)] or list(summary.headline)
    bases = {metric: summary.metrics[metric].base for metric in shown}
    groups = {metric: summary.groups(row, metric) for metric in shown}

    def draw() -> Figure:
        height, width = len(shown), len(summary.averages)
        figure = Figure(figsize=(1.2 + 3.1 * width, 0.9 + 2.1 * height))
        grid = figure.subplots(height, width, squeeze=False, sharex=True)
        lengths = [band.lengths for band in panels.values() if band]
        for i, metric in enumerate(shown):
            first = grid[[bases[m] for m in shown].index(bases[metric])][0]
            same = [band for (m, _), band in panels.items() if band and bases[m] == bases[metric]]
            for j, average in enumerate(summary.averages):
                axes, band = grid[i][j], panels[metric, average]
                if axes is not first:
                    axes.sharey(first)
                    axes.tick_params(labelleft=j == 0)
                if band is None:
                    axes.set_visible(False)
                    continue
                _shade(axes, groups[metric], labels=False)
                _draw_band(axes, band, PALETTE[j % len(PALETTE)], prominent=True)
                if metric in summary.unreached:
                    _mark_unreached(axes, band, PALETTE[j % len(PALETTE)])
                _curve_axes(axes, same, lengths)
                axes.set_xlabel("length" if i == height - 1 else "")
                crosses = f"\n(×: {NOT_REACHED})" if metric in summary.unreached else ""
                axes.set_ylabel(printable(f"{metric}{crosses}") if j == 0 else "")
                if i == 0:
                    axes.set_title(printable(average), fontsize=10)
        seeds = f"{row.seeds_run} seeds" + (f", {row.seeds_failed} failed" if row.seeds_failed else "")
        figure.suptitle(printable(f"{label(row.number)} ({seeds})\n{_values(row, summary.searched)}"), fontsize=9)
        return figure

    about = [_row_facts(replace(row, rank=None)), summary.searched, sorted(summary.unreached), groups]
    facts = [[panel, _band_facts(band)] for panel, band in panels.items() if band]
    return drawing.save(path, draw, about, facts)


def _mark_unreached(axes: Axes, band: Band, colour: str) -> None:
    """Crosses at the upper edge where the median is infinite: so few seeds have reached what the metric asks for."""
    lengths = [length for length, median in zip(band.lengths, band.median, strict=True) if math.isinf(median)]
    edge = axes.get_xaxis_transform()
    axes.plot(lengths, [EDGE] * len(lengths), "x", color=colour, markersize=6, transform=edge, zorder=6)


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


def _values(row: Row, keys: Iterable[str]) -> str:
    names = short_keys([key for key in keys if key in row.values])
    return ", ".join(f"{name} {compact_value(row.values[key])}" for key, name in names.items())


def _row_facts(row: Row) -> list[Any]:
    return [
        row.config_id,
        row.number,
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
