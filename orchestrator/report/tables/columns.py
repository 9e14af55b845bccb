"""Define the columns of tables for the page, the terminal and CSV files.

A cell is a line of text, which only `break_cell` breaks.
"""

import math
import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from orchestrator.statistics.quartiles import Quartiles
from orchestrator.text.wording import format_number, format_signed

Cells = dict[str, list[str]]
Records = list[dict[str, Any]]  # lines of a CSV file: values by name of column

MISSING_TEXT = "-"  # the text of a missing value
CELL_WIDTH = 18  # characters of a broken cell, unless an unbroken part is longer
# Also a tied rank, or why there is none; with an interval, a share or a remark; also in page/script/elements.js.
NUMBER = re.compile(
    r"([-+]?(\d[\d,]*(\.\d*)?|inf)(e[-+]?\d+)?|not reached)=?( .*)?|failed|no score|pruned at step \d+|\.\.\."
)
UNBROKEN = re.compile(r"\S+: \S+ \(n = \d+\)|\S+: \S+|\[[^\]]*\]|p = \S+")


@dataclass(frozen=True)
class Column:
    """A column of a table, with the value that `read` returns for a line.

    Page and terminal show `text` of the line, by default the value with three digits, under `heading`. CSV files have
    the full value under `name`; `quartiles` take three columns of a CSV file: for the name "test_median" also test_q25
    and test_q75. Page and terminal leave out a column without a heading, CSV files a column without a name.
    """

    heading: str
    read: Callable[[Any], Any]
    name: str = ""
    text: Callable[[Any], str] | None = None
    quartiles: bool = False


Columns = Sequence[Column]


@dataclass(frozen=True, kw_only=True)
class Section:
    """One section of a report: paragraphs, a table, and notes in small print."""

    heading: str
    cells: Cells
    paragraphs: Sequence[str] = ()
    notes: Sequence[str] = ()


def make_cells(lines: Sequence[Any], columns: Columns, infinity_text: str = "inf") -> Cells:
    """Return the texts of the lines by heading; `infinity_text` is the text for infinity.

    Columns without a heading or without any value are left out.
    """
    cells = {
        column.heading: [
            column.text(line) if column.text else format_cell(column.read(line), infinity_text) for line in lines
        ]
        for column in columns
        if column.heading
    }
    return {heading: texts for heading, texts in cells.items() if set(texts) - {MISSING_TEXT}}


def make_records(lines: Iterable[Any], columns: Columns) -> Records:
    """Return the lines of a CSV file: the full values of every column with a name."""
    return [
        {name: value for column in columns if column.name for name, value in _name_values(column, line)}
        for line in lines
    ]


def _name_values(column: Column, line: Any) -> Iterator[tuple[str, Any]]:
    """Yield the CSV columns of a column with the values of a line."""
    value = column.read(line)
    prefix = column.name.removesuffix("_median")
    if not column.quartiles:
        yield column.name, value
        return
    for name, part in ((column.name, "median"), (f"{prefix}_q25", "q25"), (f"{prefix}_q75", "q75")):
        yield name, getattr(value, part, None)


def format_cell(value: Any, infinity_text: str) -> str:
    """Return a value as text, quartiles as "median [q25, q75]"."""
    if isinstance(value, Quartiles):
        q25, median, q75 = (format_number(part, infinity_text) for part in value)
        return MISSING_TEXT if math.isnan(value.median) else f"{median} [{q25}, {q75}]"
    if value is None:
        return MISSING_TEXT
    return format_number(value, infinity_text) if isinstance(value, float) else str(value)


def parse_columns(names: str) -> list[Column]:
    """Return CSV columns that read attributes of a line: parse_columns("n low=outcome.low") reads n and outcome.low."""
    pairs = (name.partition("=") for name in names.split())
    return [Column("", attrgetter(path or name), name) for name, _, path in pairs]


def are_numbers(texts: Iterable[str]) -> bool:
    """Return whether the texts of a column are numbers, apart from missing values; tables align these at the right."""
    present = [text for text in texts if text not in (MISSING_TEXT, "")]
    return bool(present) and all(map(NUMBER.fullmatch, present))


def break_cell(cell: str, width: int = CELL_WIDTH) -> str:
    """Return a cell broken into lines of about `width` characters; intervals and values with their n stay unbroken."""
    # Protect the blanks that must not be broken.
    unbroken = UNBROKEN.sub(lambda part: part[0].replace(" ", "\0"), cell)
    lines = textwrap.wrap(unbroken, width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\0", " ")


def format_interval(value: float, low: float, high: float) -> str:
    """Return a difference with its interval: format_interval(0.5, 0, 0.9) -> "+0.500 [0.00, +0.900]"; "-" for NaN."""
    if math.isnan(value):
        return MISSING_TEXT
    interval = "" if math.isnan(low) else f" [{format_signed(low)}, {format_signed(high)}]"
    return format_signed(value) + interval


def format_p(p: float) -> str:
    """Return a p-value with three significant digits as text, "-" for NaN."""
    return MISSING_TEXT if math.isnan(p) else f"{p:.3g}"
