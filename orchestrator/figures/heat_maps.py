"""Figures of maps: of the kept weights of a member, and of its attention to one input."""

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.gridspec import GridSpec
from matplotlib.ticker import MaxNLocator

from orchestrator.errors import UserError, refuse_unwritable
from orchestrator.figures import drawing
from orchestrator.figures.drawing import PALETTE, printable
from orchestrator.record.state.labels import find_configuration
from orchestrator.record.state.state import SweepState
from orchestrator.results.from_weights.member_maps import MemberMaps, read_maps
from orchestrator.results.summarise import summary
from orchestrator.results.summary import Row
from orchestrator.trainer import refuse_program
from orchestrator.wording import label
from trainers.tensors.position_maps import Map

if TYPE_CHECKING:
    from orchestrator.results.from_weights.member_attention import MemberAttention  # brings torch

FIGURES = "figures"
PANELS = 6  # side by side
MOST_WORDS = 64  # along an axis; longer inputs have coordinates instead
WANTED = "wanted by the task"


def draw_weight_maps(folder: Path, configurations: Sequence[str]) -> list[str]:
    """Draw maps of these configurations (see `find_configuration`) into the sweep's figures; return a line for each.

    Raises UserError for an unknown configuration and if no weights were kept, DamagedWeights, NoMaps, and the errors of
    reading the sweep.
    """
    state = SweepState.load(folder)
    refuse_program(state.spec, "maps")
    chosen = [find_configuration(state, one).config_id for one in configurations]
    result = summary(state)
    if not result.weights:
        raise UserError(f"{folder}: there are no maps, because no weights were kept (resources.keep_weights)")
    lines = []
    for row in (result.by_config_id[config_id] for config_id in chosen):
        found = read_maps(result, row)
        if found is None:
            lines.append(f"{label(row.number)}: there are no maps of its weights")
        else:
            lines.append(f"Maps: {map_figure(found, folder / FIGURES / _name(row))}")
    return lines


def attention_path(folder: Path, found: "MemberAttention") -> Path:
    """Return the default path of the figure of one input's attention."""
    return folder / FIGURES / f"attention-{drawing.file_name(found.name)}.png"


def draw_attention(found: "MemberAttention", path: Path) -> Path:
    """Draw the attention of one input, one panel per head. Raises UserError for a path that cannot be written."""
    with refuse_unwritable(path):
        return map_figure(found.maps, path)


def map_figure(found: MemberMaps, path: Path) -> Path:
    """Draw maps: each group in rows of up to six panels, on one scale, with the values that the task wants."""

    def draw() -> Figure:
        groups: dict[str, list[Map]] = {}
        for one in found.maps.values():
            groups.setdefault(one.group, []).append(one)
        lines = [line for group in groups.values() for line in _lines(group)]
        across = max(len(panels) for panels in lines)
        words = max((len(one.words) for one in found.maps.values() if len(one.words) <= MOST_WORDS), default=0)
        width = max(min(4.6, max(2.1, 10.0 / across)), 0.095 * words)
        heights = [_height(panels[0][0], width) for panels in lines]
        figure = Figure(figsize=(max(width * across, 6.4) + 0.8, sum(heights) + 0.7), layout="constrained")
        grid = GridSpec(len(lines), across, figure=figure, height_ratios=heights)
        at = 0
        for group in groups.values():
            ends = _compute_scale(group)
            axes: list[Axes] = []
            for panels in _lines(group):
                for column, (one, values, title) in enumerate(panels):
                    axes.append(figure.add_subplot(grid[at, column]))
                    _panel(axes[-1], one, values, title, ends, first=column == 0)
                at += 1
            axes[0].set_title(printable(f"{group[0].group}\n{axes[0].get_title(loc='left')}"), fontsize=9, loc="left")
            if images := [image for one in axes for image in one.get_images()]:
                figure.colorbar(images[0], ax=axes, fraction=0.04, pad=0.01).ax.tick_params(labelsize=7)
        figure.suptitle(printable(found.title), fontsize=9)
        return figure

    return drawing.save(path, draw, found.title, [(name, _facts(one)) for name, one in found.maps.items()])


def _name(row: Row) -> str:
    return f"maps-{row.config_id}.png"


def _lines(group: Sequence[Map]) -> list[list[tuple[Map, Any, str]]]:
    """Return the panels of a group as (map, values, title), in rows of at most six; wanted values are own panels."""
    panels: list[tuple[Map, Any, str]] = []
    for one in group:
        panels.append((one, one.values, one.title))
        if one.wanted is not None and one.values.ndim == 2:
            panels.append((one, one.wanted, f"{one.title}: {WANTED}" if one.title else WANTED))
    across = math.ceil(len(panels) / math.ceil(len(panels) / PANELS))
    return [panels[start : start + across] for start in range(0, len(panels), across)]


def _height(one: Map, width: float) -> float:
    if one.values.ndim == 1:
        return 2.0
    if len(one.rows) == len(one.columns):
        return width
    return min(3.2, 0.9 + 0.12 * len(one.rows))


def _compute_scale(group: Sequence[Map]) -> tuple[float, float]:
    """Return the scale of a group: that of its maps, else symmetric for heat maps and the range for bars."""
    if group[0].ends is not None:
        return group[0].ends
    shown = [array for one in group for array in (one.values, one.wanted) if array is not None]
    low, high = min(float(array.min()) for array in shown), max(float(array.max()) for array in shown)
    if group[0].values.ndim == 2:
        return -max(-low, high, 1e-12), max(-low, high, 1e-12)
    margin = 0.05 * (max(high, 0.0) - min(low, 0.0)) or 1.0
    return min(low, 0.0) - (margin if low < 0 else 0.0), max(high, 0.0) + margin


def _panel(axes: Axes, one: Map, values: Any, title: str, ends: tuple[float, float], *, first: bool) -> None:
    trained = None if one.trained is None or one.trained.all() else one.trained
    rows = [one.rows[0] - 0.5, one.rows[-1] + 0.5]
    if one.values.ndim == 2:
        extent = (one.columns[0] - 0.5, one.columns[-1] + 0.5, rows[1], rows[0])
        colours = "RdBu_r" if one.ends is None else "Blues"
        look: dict[str, Any] = {"cmap": colours, "vmin": ends[0], "vmax": ends[1], "interpolation": "nearest"}
        axes.imshow(values, extent=extent, aspect="auto", **look)
        if trained is not None:
            edges = _outline(trained) + np.array([one.columns[0], one.rows[0]])
            axes.add_collection(LineCollection(list(edges), colors="#333333", linewidths=0.9))
            title += (", " if title else "") + "trained inside the line"
        axes.set_xlabel(printable(one.column_label), fontsize=8)
        axes.set_ylabel(printable(one.row_label) if first else "", fontsize=8)
        if 0 < len(one.words) <= MOST_WORDS:
            _name_cells(axes, one, title)
            return
        axes.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    else:
        if trained is not None:
            heights = np.where(trained, ends[1] - ends[0], 0.0)
            axes.bar(one.rows, heights, 1.0, ends[0], color="#E6E9ED", linewidth=0, label="trained", zorder=0)
        axes.bar(one.rows, values, width=0.8, color=PALETTE[0], zorder=2)
        if one.wanted is not None:
            axes.plot(one.rows, one.wanted, "_", color="#000000", markersize=6, label=WANTED, zorder=3)
        if trained is not None or one.wanted is not None:
            look = {"fontsize": 7, "frameon": True, "edgecolor": "none", "ncols": 2, "borderpad": 0.1}
            axes.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), **look)
        axes.set_xlim(*rows)
        axes.set_ylim(*ends)
        axes.set_xlabel(printable(one.row_label), fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    axes.tick_params(labelsize=7)
    axes.set_title(printable(title), fontsize=8, loc="left")


def _name_cells(axes: Axes, one: Map, title: str) -> None:
    """Label the cells with words instead of coordinates."""
    words = [printable(word) for word in one.words]
    upright = max(map(len, words)) > 2
    axes.set_xticks(list(one.columns), words, fontsize=5, rotation=90 if upright else 0)
    axes.set_yticks(list(one.rows), words, fontsize=5)
    axes.tick_params(length=0, pad=1)
    axes.set_title(printable(title), fontsize=8, loc="left")


def _outline(mask: Any) -> Any:
    """Return the outline of a mask of cells (row, column) as segments ((x, y), (x, y))."""
    padded = np.pad(mask, 1)
    across = np.argwhere(padded[1:, 1:-1] != padded[:-1, 1:-1])[:, ::-1]
    down = np.argwhere(padded[1:-1, 1:] != padded[1:-1, :-1])[:, ::-1]
    segments = [corners[:, None] + [[0, 0], way] for corners, way in ((across, [1, 0]), (down, [0, 1]))]
    return np.concatenate(segments) - 0.5


def _facts(one: Map) -> list[Any]:
    arrays = [None if array is None else array.tobytes() for array in (one.values, one.wanted, one.trained)]
    digests = [None if content is None else hashlib.sha256(content).hexdigest() for content in arrays]
    named = [list(one.words), one.ends] if one.words or one.ends else []
    return [one.group, one.title, one.row_label, list(one.rows), one.column_label, list(one.columns), digests, *named]
