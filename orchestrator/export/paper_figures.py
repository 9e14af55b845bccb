"""Draw figures for papers: files of a given size, with embedded fonts and line styles that are legible in grey."""

import io
import math
import textwrap
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from orchestrator.errors import UserError
from orchestrator.export.user_labels import select_labelled_rows
from orchestrator.figures.drawing import file_name
from orchestrator.figures.on_axes import plot_curves, plot_effect
from orchestrator.results.summary import Summary
from orchestrator.text.wording import format_ranges

FORMATS = ("pdf", "svg", "png")
DEFAULT_SIZE = (3.3, 2.4)  # inches: one column of a two-column page
MIN_INCHES, MAX_INCHES = 1.0, 40.0  # of a side
CHARACTERS_PER_INCH = 22  # average in legends
LABEL_CHARACTERS_PER_INCH = 15  # average in axis labels
STYLE = {
    "pdf.fonttype": 42,  # TrueType, which journals require; matplotlib's default is Type 3
    "svg.fonttype": "path",
    "svg.hashsalt": "lengthwise",
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "legend.fontsize": 6,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "savefig.dpi": 300,
}
_METADATA = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {"Software": None}}


def parse_size(text: str) -> tuple[float, float]:
    """Return width and height in inches: parse_size("3.3x2.4") -> (3.3, 2.4). Raises UserError for anything else."""
    # Numbers out of range, NaN and infinity fall through to the same error as other texts.
    try:
        width, height = map(float, text.lower().split("x"))
        if all(math.isfinite(side) and MIN_INCHES <= side <= MAX_INCHES for side in (width, height)):
            return width, height
    except ValueError:
        pass
    raise UserError(
        f"--size {text}: allowed: WIDTHxHEIGHT in inches, each {MIN_INCHES:g} to {MAX_INCHES:g}, such as 3.3x2.4"
    )


def draw_paper_figures(
    summary: Summary, file_format: str, folder: Path, size: tuple[float, float], labels: Mapping[str, str]
) -> dict[Path, bytes]:
    """Return the bytes of the figures by path below `folder`: median curves, and the effect of every searched key.

    The curves are those of configurations that have a label, in that order, or else of the first by score. The same
    sweep gives the same bytes. Raises UserError for an unknown format and if there is nothing to draw.
    """
    if file_format not in FORMATS:
        raise UserError(f"--figures {file_format}: allowed: {', '.join(FORMATS)}")
    with mpl.rc_context(STYLE):
        # A paper may be printed in grey, so curves also differ in their line style.
        figure, axes = _make_figure(size)
        plot_curves(summary, axes, rows=select_labelled_rows(summary, labels), labels=labels, distinct_in_grey=True)
        _move_legend_out(axes, figure)
        files = {folder / f"{summary.name}-curves.{file_format}": _render(figure, file_format)}

        # An effect needs two scores.
        for key in summary.searched:
            if sum(key in row.values and row.score is not None for row in summary.rows) > 1:
                figure, axes = _make_figure(size)
                plot_effect(summary, key, axes, labels=labels)
                axes.yaxis.label.set_fontsize(8)
                axes.set_title("", loc="left")  # the caption has this text
                files[folder / f"{summary.name}-{file_name(key)}.{file_format}"] = _render(figure, file_format)
    return files


def make_caption(summary: Summary, labels: Mapping[str, str]) -> str:
    """Return sentences for the caption of the curves of the labelled configurations, or of all."""
    # A caption that counts only the drawn configurations would hide failures in the others.
    rows = select_labelled_rows(summary, labels) or summary.rows
    ran = sum(row.seeds_run for row in rows)
    failed = sum(row.seeds_failed for row in rows)
    totals = ""
    if len(rows) < len(summary.rows):
        totals = f"; of all {len(summary.rows)} configurations {summary.seeds_run} and {summary.seeds_failed}"

    # The reader must know which lengths influenced the selection.
    test = f"; lengths {format_ranges(summary.test_lengths)} were used for neither" if summary.test_lengths else ""
    seeds = replace(summary, rows=tuple(rows)).seeds_in_words
    return (
        f"Lines: median over {seeds}; bands: quartiles; thin lines: single seeds "
        f"({ran} ran, {failed} failed{totals}). Shaded: trained lengths; hatched: lengths "
        f"{format_ranges(summary.objective.lengths)}, by which configurations are ranked{test}."
    )


def _move_legend_out(axes: Axes, figure: Figure) -> None:
    """Move the legend below the axes, where it hides no line."""
    # The handle of an entry and its margins take about eight characters.
    legend = axes.get_legend()
    assert legend is not None
    texts = [text.get_text() for text in legend.get_texts()]
    line_characters = figure.get_figwidth() * CHARACTERS_PER_INCH
    columns = max(1, min(len(texts), int(line_characters / (max(map(len, texts)) + 8))))

    # A legend cannot be moved from axes to their figure, so it is made again.
    handles = [handle for handle in legend.legend_handles if handle is not None]
    legend.remove()
    figure.legend(handles, texts, loc="outside lower center", ncols=columns, frameon=False, borderpad=0.1)


def _make_figure(size: tuple[float, float]) -> tuple[Figure, Axes]:
    """Return a new figure with one pair of axes."""
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots()


def _render(figure: Figure, kind: str) -> bytes:
    """Return the bytes of a figure, without a date, after wrapping its axis labels."""
    # matplotlib would cut long labels off; 0.75: the y axis is shorter than the figure.
    content = io.BytesIO()
    width, height = figure.get_size_inches()
    for label, side in ((figure.axes[0].xaxis.label, width), (figure.axes[0].yaxis.label, 0.75 * height)):
        label.set_text(textwrap.fill(label.get_text(), max(8, int(side * LABEL_CHARACTERS_PER_INCH))))
    figure.savefig(content, format=kind, metadata=_METADATA[kind])
    return content.getvalue()
