"""What the figures of the gallery share: medians over seeds with every seed thin behind them."""

import io
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from orchestrator.studies.measures import Sweep

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C6D31", "#000000")  # Okabe and Ito


def panels_of(
    count: int, *, columns: int | None = None, sharey: Any = False, height: float = 3.6
) -> tuple[Figure, list[Axes]]:
    """A figure of `count` panels, in rows of `columns`."""
    columns = columns or count
    rows = count // columns
    figure = Figure(figsize=(4.2 * columns if columns < 3 else 10.8, height * rows + 0.4), layout="constrained")
    found = figure.subplots(rows, columns, sharey=sharey, squeeze=False)
    for axes in found.flat:
        axes.grid(alpha=0.25, linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
    return figure, list(found.flat)


def bundle(axes: Axes, curves: pd.DataFrame, colour: str, label: str, linestyle: str = "-") -> None:
    """The median of a table of lengths by members, and the members."""
    axes.plot(curves.index, curves, color=colour, linewidth=0.6, alpha=0.3, linestyle=linestyle)
    median = curves.median(axis=1)
    axes.plot(median.index, median, color=colour, linewidth=2, label=label, linestyle=linestyle)


def shade_lengths(axes: Axes, sweep: Sweep, label: str) -> None:
    """Trained lengths grey, selection lengths hatched."""
    shade(axes, sweep.trained, facecolor="#E6E9ED")
    shade(axes, sweep.selection, facecolor="#F7F8F9", edgecolor="#D5D9DE", hatch="////")
    axes.set_xlabel(label)


def shade(axes: Axes, lengths: Sequence[int], **style: Any) -> None:
    """Shade the lengths from the first to the last one."""
    axes.axvspan(min(lengths) - 0.5, max(lengths) + 0.5, zorder=0, linewidth=0, **style)


def save_all(
    drawings: Mapping[str, tuple[str, Callable[[], Figure]]], folder: Path, study: str, colours: int | None = None
) -> dict[str, Path]:
    """Draw the figure of each claim, a name by letter, into `folder`; the letters to the paths.

    With so many `colours` at most, files are about a third as large.
    """
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for letter, (name, draw) in drawings.items():
        found[letter] = folder / f"{study}_{name}.png"
        drawn = io.BytesIO()
        draw().savefig(drawn, format="png", dpi=110, metadata={"Software": None})
        if colours is None:
            found[letter].write_bytes(drawn.getvalue())
        else:
            with Image.open(drawn) as image:
                reduced(image, colours).save(found[letter], optimize=True)
    return found


def reduced(image: Image.Image, colours: int) -> Image.Image:
    """The picture with a palette of so many colours."""
    return image.convert("RGB").quantize(colours, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
