"""Draw figures of a sweep on the caller's axes: median curves against length, the effect of a searched key.

`labels` replaces shown texts: metrics, searched keys, "length", "score", and configurations ("#3").
"""

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from orchestrator.errors import UserError
from orchestrator.figures.bands import DISTINCT_IN_GREY, SOLID, plot_configurations, shade_groups, shape_axes
from orchestrator.figures.drawing import escape_for_figure
from orchestrator.figures.effects import draw_effect
from orchestrator.results.summary import ConfigurationResult, Summary
from orchestrator.text.wording import format_command, format_count, format_label, format_metric, format_values
from trainers.errors import suggest_nearest

Labels = Mapping[str, str]
MAX_COLORED = 8  # with at most this many configurations, color all
FIRST_COLORED = 5  # otherwise color this many, the best by score


def plot_curves(
    summary: Summary,
    axes: Axes,
    *,
    rows: Sequence[ConfigurationResult] = (),
    metric: str | None = None,
    average: str | None = None,
    labels: Labels | None = None,
    distinct_in_grey: bool = False,
) -> Axes:
    """Draw a metric against length on `axes`: medians over seeds with quartiles, every seed, and a legend.

    `rows` are the configurations to draw, by default all, the first by score in color and the others in grey. `metric`
    and `average` default to the objective's. Raises UserError for unknown names and if there is nothing to draw.
    """
    # A configuration has no curve before a seed has ended, or if it does not measure this metric.
    metric = choose_name("metric", metric or summary.objective.metric, summary.metrics)
    average = choose_name("average", average or summary.objective.average, summary.averages)
    bands = {row.config_id: summary.bands.get((row.config_id, metric, average)) for row in rows or summary.rows}
    drawn = {config_id: band for config_id, band in bands.items() if band is not None}
    drawn_rows = [row for row in rows or summary.rows if row.config_id in drawn]
    if not drawn_rows:
        why = "no seed has a curve" if summary.complete_configurations else "no configuration has all its seeds yet"
        why += f"; see {format_command('status', summary.folder)}" if summary.status == "running" else ""
        raise UserError(f"{summary.folder}: no median curves to draw: {why}")

    # More curves than colors cannot be told apart, so the others are grey.
    colored = drawn_rows if rows or len(drawn_rows) <= MAX_COLORED else drawn_rows[:FIRST_COLORED]
    grey = drawn_rows[len(colored) :]
    labels = labels or {}
    crosses = metric in summary.unreached_metrics
    shade_groups(axes, summary.find_length_groups(drawn_rows[0], metric), labels=True)
    styles = DISTINCT_IN_GREY if distinct_in_grey else SOLID
    lines = plot_configurations(axes, drawn, colored, grey, crosses=crosses, styles=styles)
    shape_axes(
        axes, list(drawn.values()), [band.lengths for band in drawn.values()], "auto", summary.get_direction(metric)
    )

    # Names of metrics and keys may have characters that matplotlib reads as mathematics.
    axes.set_xlabel(escape_for_figure(labels.get("length", summary.axis)))
    axes.set_ylabel(escape_for_figure(f"{labels.get(metric, format_metric(metric, average))}, median over seeds"))
    names = [make_configuration_label(row, summary, labels) for row in colored]
    names += [f"the other {format_count(len(grey), 'configuration')}"] if grey else []
    axes.legend(lines, [escape_for_figure(name) for name in names], fontsize="small", frameon=False)
    return axes


def plot_effect(summary: Summary, key: str, axes: Axes, *, labels: Labels | None = None) -> Axes:
    """Draw the score of every configuration against a searched key on `axes`, with quartiles over seeds.

    Raises UserError for a key that was not searched, and if no configuration has a score yet.
    """
    choose_name("searched key", key, summary.searched)
    if not any(row.score is not None and not math.isnan(row.score) and key in row.values for row in summary.rows):
        raise UserError(f"{summary.folder}: nothing to draw: no configuration with {key} has a score yet")
    draw_effect(summary, key, axes)

    texts = labels or {}
    axes.set_xlabel(escape_for_figure(texts.get(key, "")) or axes.get_xlabel())
    judged = texts.get(summary.objective_curve[0], summary.judged_name)
    axes.set_ylabel(escape_for_figure(texts.get("score", summary.score_label.replace(summary.judged_name, judged))))
    return axes


def make_configuration_label(row: ConfigurationResult, summary: Summary, labels: Labels) -> str:
    """Return the legend of a configuration: label and values, or its text in `labels`, and failed seeds."""
    values = format_values(row.values, summary.searched)
    text = labels.get(format_label(row.number), f"{format_label(row.number)} {values}".rstrip())
    return text + (f" ({row.seeds_failed} of {row.seeds_run} seeds failed)" if row.seeds_failed else "")


def choose_name(kind: str, name: str, allowed: Sequence[str] | Mapping[str, object]) -> str:
    """Return `name` if it is allowed, else raise UserError with the allowed names and the nearest of them."""
    if name in allowed:
        return name
    hint = suggest_nearest(name, allowed)
    raise UserError(f"no {kind} {name!r}; allowed: {', '.join(allowed) or 'none'}{hint}")
