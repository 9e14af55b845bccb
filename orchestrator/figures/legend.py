"""The legend of figures that compare configurations: a table of their values, in their colours."""

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from orchestrator.figures.drawing import GREY, PALETTE, printable
from orchestrator.results.outcomes import searched_value
from orchestrator.results.summary import Row, Summary
from orchestrator.wording import compact_value, label, short_keys, three_digits

MANY, HIGHLIGHTED_OF_MANY = 8, 5


def coloured_and_grey(rows: Sequence[Row]) -> tuple[Sequence[Row], Sequence[Row]]:
    """Return the first configurations, drawn in the colours of PALETTE in their order, and the others."""
    highlighted = MANY if len(rows) <= MANY else HIGHLIGHTED_OF_MANY
    return rows[:highlighted], rows[highlighted:]


def legend_height(coloured: Sequence[Row], grey: Sequence[Row]) -> float:
    """Return the height of the legend in inches."""
    return 0.20 * (len(coloured) + 2 + bool(grey))


def legend_table(figure: Figure, summary: Summary, coloured: Sequence[Row], grey: Sequence[Row]) -> None:
    """Add the legend below the figure: one line per configuration, one column per searched value."""
    keys = [key for key in summary.searched if any(key in row.values for row in coloured)]
    names = short_keys(keys)
    seeds = ["seeds"] if summary.has_unequal_seeds else []
    header = ["rank", "", "score", *seeds, *(names[key] for key in keys)]
    lines = [
        [
            f"{row.rank}." if row.rank else "-",
            label(row.number),
            three_digits(row.score, summary.infinite),
            *(str(row.seeds_run) for _ in seeds),
            *(compact_value(searched_value(summary, row, key, "-")) for key in keys),
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
