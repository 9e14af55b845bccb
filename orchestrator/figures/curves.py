"""The figures of a sweep, and its median curves with quartile bands over seeds.

Each function draws one PNG from a Summary and returns its path.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from matplotlib.figure import Figure

from orchestrator.figures import drawing
from orchestrator.figures.bands import draw_band, draw_configurations, mark_unreached, shade_groups, shape_axes
from orchestrator.figures.by_hyperparameter.families import family_figures
from orchestrator.figures.by_hyperparameter.hyperparameters import score_figures
from orchestrator.figures.by_hyperparameter.pairs import pair_figures
from orchestrator.figures.drawing import PALETTE, printable
from orchestrator.figures.heat_maps import map_figures
from orchestrator.figures.last_and_best import last_and_best_figure
from orchestrator.figures.later_evaluations import later_figures
from orchestrator.figures.legend import coloured_and_grey, legend_height, legend_table
from orchestrator.figures.steps_to import steps_figures
from orchestrator.record.state.lineage import CONFIRMS
from orchestrator.results.scoring.median_curves import Band
from orchestrator.results.summary import Row, Summary
from orchestrator.wording import NOT_REACHED, format_values, label


@dataclass(frozen=True)
class Drawn:
    """The paths of the figures; `scores` by searched key."""

    comparison: Path | None
    scores: dict[str, Path]
    pairs: tuple[Path, ...] = ()
    families: tuple[Path, ...] = ()
    maps: tuple[Path, ...] = ()
    last_and_best: Path | None = None
    steps: tuple[Path, ...] = ()
    later: tuple[Path, ...] = ()

    @property
    def all(self) -> tuple[Path, ...]:
        """Every figure."""
        first = [path for path in (self.comparison, self.last_and_best) if path is not None]
        return (*first, *self.scores.values(), *self.pairs, *self.steps, *self.families, *self.maps, *self.later)


def draw_all(summary: Summary, folder: Path) -> Drawn:
    """Draw the figures of a sweep, finished or not, into `folder`."""
    comparison = comparison_figure(summary, folder / "comparison.png") if summary.judged_rows else None
    several = summary.configurations_finished > 1
    return Drawn(
        comparison=comparison,
        scores=score_figures(summary, folder) if several and CONFIRMS not in summary.provenance else {},
        pairs=pair_figures(summary, folder),
        families=family_figures(summary, folder),
        last_and_best=last_and_best_figure(summary, folder / "evaluations.png"),
        maps=map_figures(summary, folder),
        steps=steps_figures(summary, folder),
        later=later_figures(summary, folder),
    )


def comparison_figure(summary: Summary, path: Path) -> Path:
    """Draw the judged curve of every configuration: the first ones in colour with band and seeds, the others in grey.

    There is one panel for each distribution of the judged metric. Grey curves are medians alone.
    """
    average = summary.objective.average
    rows = summary.judged_rows
    coloured, grey = coloured_and_grey(rows)
    bands: dict[str, dict[str, Band]] = {}
    for metric in summary.distributions:
        found = {row.config_id: summary.bands.get((row.config_id, metric, average)) for row in rows}
        if drawn := {config_id: band for config_id, band in found.items() if band}:
            bands[metric] = drawn
    every = [band for by_configuration in bands.values() for band in by_configuration.values()]
    title = _comparison_title(summary, len(rows))

    def draw() -> Figure:
        width = 8.0 if len(bands) == 1 else 0.8 + 4.4 * len(bands)
        figure = Figure(figsize=(width, 4.6 + legend_height(coloured, grey)))
        grid = figure.subplots(1, len(bands), squeeze=False, sharey=True)[0]
        for axes, (metric, shown) in zip(grid, bands.items(), strict=True):
            shade_groups(axes, summary.groups(next(row for row in rows if row.config_id in shown), metric), labels=True)
            draw_configurations(axes, shown, coloured, grey, crosses=metric in summary.unreached)
            shown_lengths = [band.lengths for band in shown.values()]
            shape_axes(axes, every, shown_lengths, summary.scale, summary.objective.direction)
            axes.set_xlabel(printable(summary.axis))
            if len(bands) > 1:
                judged = ", judged" if metric == summary.objective.metric else ""
                axes.set_xlabel(printable(f"{summary.axis} ({metric}{judged})"))
        first = figure.axes[0]
        crosses = f" (×: {NOT_REACHED})" if summary.unreached & bands.keys() else ""
        first.set_ylabel(printable(f"{summary.judged_name}, median over seeds{crosses}"))
        first.set_title(printable(title), fontsize=10, loc="left", pad=16)
        legend_table(figure, summary, coloured, grey)
        return figure

    facts = [[metric, *shown.values()] for metric, shown in bands.items()]
    about = [title, summary.searched, summary.judged_name, sorted(summary.unreached & bands.keys()), summary.scale]
    groups = [
        [summary.groups(row, metric) for metric, shown in bands.items() if row.config_id in shown] for row in rows
    ]
    return drawing.save(path, draw, about, rows, groups, facts)


def configuration_figure(summary: Summary, row: Row, path: Path) -> Path:
    """Draw one configuration: a panel per headline metric (rows) and average (columns).

    The distributions of a metric have the same scale. Without any curve the panels are empty.
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
                shade_groups(axes, groups[metric], labels=False)
                draw_band(axes, band, PALETTE[j % len(PALETTE)], prominent=True)
                if metric in summary.unreached:
                    mark_unreached(axes, band, PALETTE[j % len(PALETTE)])
                shape_axes(axes, same, lengths, summary.scale, summary.direction(metric))
                axes.set_xlabel(printable(summary.axis) if i == height - 1 else "")
                crosses = f"\n(×: {NOT_REACHED})" if metric in summary.unreached else ""
                axes.set_ylabel(printable(f"{metric}{crosses}") if j == 0 else "")
                if i == 0:
                    axes.set_title(printable(average), fontsize=10)
        seeds = f"{row.seeds_run} seeds" + (f", {row.seeds_failed} failed" if row.seeds_failed else "")
        values = format_values(row.values, summary.searched)
        figure.suptitle(printable(f"{label(row.number)} ({seeds})\n{values}"), fontsize=9)
        return figure

    about = [replace(row, rank=None), summary.searched, sorted(summary.unreached), groups, summary.scale]
    return drawing.save(path, draw, about, list(panels.items()))


def _comparison_title(summary: Summary, shown: int) -> str:
    state = "" if summary.finished else f" ({summary.status}: {summary.configurations_finished} of {summary.planned})"
    return f"{summary.name}: {shown} configuration{'s' if shown != 1 else ''} × {summary.seeds_in_words}{state}"
