"""Tables and sentences laid out for a terminal or a log: nothing is cut, and what belongs together stays on a line."""

import re
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestrator.report.tables.tables import Columns
from orchestrator.results.summary import Summary

WIDE = 140
LEFT = {"label", "#", "hyperparameter", "at lengths", "median by value", "average", "against", "form"}
LEFT |= {"searched values", "effect of", "config_id", "first", "second"}
WHOLE = {"label", "#", "config_id", "at lengths"}  # never folded
INTERVAL = re.compile(r"(?:\S+ )?\[[^\]]*\]|p = \S+")


def prose(text: str, console: Console, result: Summary, style: str = "") -> Text:
    """A sentence: one line in files, between words on a terminal, and whole wherever it names the sweep's folder."""
    whole = not console.is_terminal or str(result.folder) in text
    return Text(text, style=style, no_wrap=whole, overflow="ignore" if whole else "fold")


def rich_table(title: str, columns: Columns, wide: bool = True, *, tight: bool = False) -> Table:
    """Below WIDE, headings longer than their cells have a word on each line; `tight` saves the blank lines around."""
    look: dict[str, Any] = {"title_justify": "left", "title_style": "bold", "header_style": "bold"}
    look |= {"show_edge": not tight}
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1), **look)
    for name, cells in columns.items():
        folds = name in LEFT - WHOLE or "[95 %]" in name
        unbroken = max((len(part) for cell in cells for part in _unbroken(name, cell)), default=0)
        heading = name if wide or folds or len(name) <= unbroken else name.replace(" ", "\n")
        heading = heading if wide else heading.replace(" [95 %]", "\n[95 %]")
        unbroken = unbroken if folds else max(unbroken, *map(len, heading.split("\n")))
        style: dict[str, Any] = {"justify": "left" if name in LEFT else "right", "overflow": "fold"}
        table.add_column(Text(heading), min_width=unbroken, no_wrap=not folds, **style)
    for line in zip(*columns.values(), strict=True):
        table.add_row(*(Text(cell) for cell in line))
    return table


def _unbroken(name: str, cell: str) -> list[str]:
    """The parts of a cell that stay on one line: values with their n, intervals, file names and the like."""
    if name == "median by value":
        return cell.split("\n")
    if "[95 %]" in name:
        return INTERVAL.findall(cell)
    return [] if name in LEFT - WHOLE else cell.split("\n")
