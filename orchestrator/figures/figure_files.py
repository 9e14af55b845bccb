"""Render figures as files of a given size, with embedded fonts and line styles that are legible in grey."""

import io
import textwrap
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from orchestrator.figures.on_axes import plot_curves
from orchestrator.results.summary import ConfigurationResult, Summary

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


def render_curves(
    summary: Summary,
    file_format: str,
    size: tuple[float, float],
    rows: Sequence[ConfigurationResult] = (),
    labels: Mapping[str, str] = MappingProxyType({}),
) -> bytes:
    """Return a figure of median curves, of `rows` or of all configurations, the first by score in color.

    The same sweep gives the same bytes. Raises UserError if there is nothing to draw.
    """
    # A paper may be printed in grey, so curves also differ in their line style.
    with mpl.rc_context(STYLE):
        figure, axes = make_figure(size)
        plot_curves(summary, axes, rows=rows, labels=labels, distinct_in_grey=True)
        _move_legend_out(axes, figure)
        return render_figure(figure, file_format)


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


def make_figure(size: tuple[float, float]) -> tuple[Figure, Axes]:
    """Return a new figure with one pair of axes."""
    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots()


def render_figure(figure: Figure, file_format: str) -> bytes:
    """Return the bytes of a figure, without a date, after wrapping its axis labels."""
    # matplotlib would cut long labels off; 0.75: the y axis is shorter than the figure.
    content = io.BytesIO()
    width, height = figure.get_size_inches()
    for label, side in ((figure.axes[0].xaxis.label, width), (figure.axes[0].yaxis.label, 0.75 * height)):
        label.set_text(textwrap.fill(label.get_text(), max(8, int(side * LABEL_CHARACTERS_PER_INCH))))
    figure.savefig(content, format=file_format, metadata=_METADATA[file_format])
    return content.getvalue()
