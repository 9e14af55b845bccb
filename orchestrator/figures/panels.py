"""Arrange the panels of a figure in a grid, with room for their labels and titles.

Matplotlib's layout engines measure every text several times, which takes longer than drawing. Here each text is
measured once, and ticks are fixed when they are measured.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis, YAxis
from matplotlib.backends.backend_agg import FigureCanvasAgg, RendererAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, LogFormatter, LogLocator, MaxNLocator, NullFormatter
from matplotlib.transforms import ScaledTranslation

PAD = 0.06  # inches between axes with labels and the edge of the figure, and half of that between two panels
LEFT, RIGHT, BELOW, ABOVE = range(4)
SIDES = {"left": LEFT, "right": RIGHT, "bottom": BELOW, "top": ABOVE}
OUTWARDS = ((-1.0, 0.0), (1.0, 0.0), (0.0, -1.0), (0.0, 1.0))
MIDDLES = ((0.0, 0.5), (1.0, 0.5), (0.5, 0.0), (0.5, 1.0))  # of the sides, as fractions of a panel


def arrange_panels(figure: Figure) -> None:
    """Set the position of every panel, and the labels of every log axis by its size.

    The panels are one grid (`figure.subplots`). Legends of the figure are below it, a rotated text is at its left,
    other texts are above.
    """
    renderer = FigureCanvasAgg(figure).get_renderer()
    edges = _edges(figure, renderer)
    _place(figure, edges, {axes: _guess(axes) for axes in figure.axes})
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_label_coords(0.0, 0.0)  # positioned below; otherwise matplotlib searches for a position each time
    label_log_axes(figure)
    _place(figure, edges, {axes: _room(figure, axes, renderer) for axes in figure.axes if axes.get_visible()})


def label_log_axes(figure: Figure) -> None:
    """Label every log axis as densely as possible: 1-2-5, 1-3 or 1 of every decade, or fewer."""
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) if axis.get_scale() == "log"):
        if not _labelled(axis):
            axis.set_tick_params(which="minor", **dict.fromkeys(SIDES, False))  # drawing ticks takes time
            continue
        axis.set_minor_formatter(NullFormatter())
        if isinstance(axis.get_major_formatter(), LogFormatter):
            axis.set_major_formatter(lambda value, _: f"{value:g}")
        locators = [LogLocator(subs=subs, numticks=50) for subs in ((1.0, 2.0, 5.0), (1.0, 3.0), (1.0,))]
        locators += [LogLocator(subs=(1.0,), numticks=count) for count in (8, 6, 4, 3)]
        for locator in (*locators, MaxNLocator(3), MaxNLocator(2), MaxNLocator(1)):
            axis.set_major_locator(locator)
            low, high = sorted(axis.get_view_interval())
            if sum(low <= place <= high for place in axis.get_majorticklocs()) > _most_labels(axis):
                continue
            axis.get_tightbbox()  # places the labels
            if _labels_apart(axis):
                break


def _most_labels(axis: Axis) -> float:
    """Return how many labels fit at most, however short they are."""
    box = axis.axes.bbox
    return 2 + (box.height if isinstance(axis, YAxis) else box.width) / (0.17 * axis.axes.figure.dpi)


def _labelled(axis: Axis) -> bool:
    """Return whether the ticks of an axis have labels; shared axes have them only once."""
    return bool(axis.get_tick_params().get("labelleft" if isinstance(axis, YAxis) else "labelbottom", True))


def _labels_apart(axis: Axis) -> bool:
    """Return whether there are labels and none touches another."""
    low, high = sorted(axis.get_view_interval())
    shown = [tick.label1 for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
    boxes = [label.get_window_extent() for label in shown if label.get_visible() and label.get_text()]
    apart = not any(one.padded(6).overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])
    return apart and bool(boxes)


def _edges(figure: Figure, renderer: RendererAgg) -> tuple[float, float, float, float]:
    """Return the inches at the four sides of the figure for its own texts and legends."""
    edges = [PAD] * 4
    width, height = figure.get_size_inches()
    for text in figure.texts:
        box = text.get_window_extent(renderer)
        if text.get_rotation() == 90.0:
            text.set_position((PAD / width, 0.5))
            edges[LEFT] += box.width / figure.dpi + PAD / 2
        else:
            text.set_position((0.5, 1.0 - PAD / height))
            edges[ABOVE] += box.height / figure.dpi + PAD / 2
    for legend in figure.legends:
        edges[BELOW] += legend.get_window_extent(renderer).height / figure.dpi
    return edges[LEFT], edges[RIGHT], edges[BELOW], edges[ABOVE]


def _guess(axes: Axes) -> tuple[float, float, float, float]:
    """Return a first estimate of the room around a panel, from which its size and its ticks follow."""
    left = (0.45 if _labelled(axes.yaxis) else 0.0) + (0.2 if axes.get_ylabel() else 0.0)
    below = (0.22 if _labelled(axes.xaxis) else 0.05) + (0.2 if axes.get_xlabel() else 0.0)
    return left, 0.05, below, 0.2 if any(axes.get_title(loc=loc) for loc in ("left", "center", "right")) else 0.05


def _room(figure: Figure, axes: Axes, renderer: RendererAgg) -> tuple[float, float, float, float]:
    """Return the inches around a panel for its ticks, labels and titles; also positions the labels of its axes."""
    inner, dpi = axes.bbox, figure.dpi
    room = [0.0] * 4
    for axis in (axes.xaxis, axes.yaxis):
        label, text, side = axis.label, axis.label.get_text(), SIDES[axis.get_label_position()]
        if not isinstance(axis.get_major_locator(), FixedLocator):
            axis.set_major_locator(FixedLocator(list(axis.get_majorticklocs())))
        label.set_text("")
        box = axis.get_tightbbox(renderer)
        label.set_text(text)
        if box is not None:
            beyond = (inner.x0 - box.x0, box.x1 - inner.x1, inner.y0 - box.y0, box.y1 - inner.y1)
            room = [max(one, other / dpi) for one, other in zip(room, beyond, strict=True)]
        if text:
            away = room[side] + axis.labelpad / 72
            shift = (OUTWARDS[side][0] * away, OUTWARDS[side][1] * away)
            place = axes.transAxes + ScaledTranslation(*shift, figure.dpi_scale_trans)
            axis.set_label_coords(*MIDDLES[side], transform=place)
            size = label.get_window_extent(renderer)
            room[side] = away + (size.width if side in (LEFT, RIGHT) else size.height) / dpi
    for written in _texts(axes):
        room[ABOVE] = max(room[ABOVE], (written.get_window_extent(renderer).y1 - inner.y1) / dpi)
    return room[LEFT], room[RIGHT], room[BELOW], room[ABOVE]


def _texts(axes: Axes) -> Iterator[Text]:
    """Return the texts in and above a panel, its titles too."""
    return (child for child in axes.get_children() if isinstance(child, Text) and child.get_text())


def _place(figure: Figure, edges: Sequence[float], rooms: dict[Axes, tuple[float, float, float, float]]) -> None:
    """Set the positions of the panels: columns and rows share the remaining room by their ratios."""
    spans = {axes: spec for axes in figure.axes if (spec := axes.get_subplotspec()) is not None}
    grid = spans[figure.axes[0]].get_gridspec()
    shares = []
    for count, ratios, length, before, after in (
        (grid.ncols, grid.get_width_ratios(), figure.get_figwidth(), LEFT, RIGHT),
        (grid.nrows, grid.get_height_ratios(), figure.get_figheight(), ABOVE, BELOW),
    ):
        margins = np.zeros((count, 2))
        for axes, room in rooms.items():
            span = spans[axes].colspan if before == LEFT else spans[axes].rowspan
            margins[span.start, 0] = max(margins[span.start, 0], room[before])
            margins[span.stop - 1, 1] = max(margins[span.stop - 1, 1], room[after])
        margins += PAD / 2
        left = max(length - edges[before] - edges[after] - margins.sum(), 0.3 * length)
        lengths = left * np.array(ratios, dtype=float) / np.sum(ratios)
        starts = edges[before] + np.cumsum(margins.sum(axis=1) + lengths) - lengths - margins[:, 1]
        shares.append((starts / length, lengths / length))
    (x, widths), (y, heights) = shares
    for axes, place in spans.items():
        columns, rows = place.colspan, place.rowspan
        right, foot = x[columns.stop - 1] + widths[columns.stop - 1], y[rows.stop - 1] + heights[rows.stop - 1]
        axes.set_position((x[columns.start], 1.0 - foot, right - x[columns.start], foot - y[rows.start]))
