"""Tables of a report: lines, and columns that are functions of a line; pages, terminals and CSV files show them.

A cell is one line of text. `break_cell` says where it may be broken.
"""

import math
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from orchestrator.statistics.quartiles import Quartiles
from orchestrator.wording import three_digits

Columns = dict[str, Callable[[Any], Any]]
Cells = dict[str, list[str]]

NONE = "-"  # a cell without a value
NARROW = 18  # characters of a broken cell, unless a part that stays whole is longer
UNBROKEN = re.compile(r"\S+: \S+ \(n = \d+\)|\S+: \S+|\[[^\]]*\]|p = \S+")


@dataclass(frozen=True, kw_only=True)
class Section:
    """One section of a report: paragraphs, a table, and notes in small print.

    A terminal shows the first `most` lines of the table and says how many more are in the file `csv`. If the table is
    too wide, it is shown in parts, each with the first `keys` columns.
    """

    heading: str
    cells: Cells
    keys: int = 2
    paragraphs: Sequence[str] = ()
    notes: Sequence[str] = ()
    csv: str = ""
    most: int | None = None


def make_cells(lines: Sequence[Any], columns: Columns) -> Cells:
    """Return the text of every column; columns without any value are left out."""
    cells = {heading: [text(line) for line in lines] for heading, text in columns.items()}
    return {heading: column for heading, column in cells.items() if set(column) - {NONE}}


def fields(names: str) -> Columns:
    """Return columns that hold attributes: fields("n low=outcome.low") has n, and low from `line.outcome.low`."""
    pairs = (name.partition("=") for name in names.split())
    return {column: attrgetter(path or column) for column, _, path in pairs}


def quartile_fields(names: str) -> Columns:
    """Return three columns for each attribute with Quartiles: "test_median=test" gives test_median, _q25 and _q75."""
    columns: Columns = {}
    for column, quartiles in fields(names).items():
        prefix = column.removesuffix("_median")
        columns[column] = optional_field(quartiles, "median")
        columns |= {f"{prefix}_{name}": optional_field(quartiles, name) for name in ("q25", "q75")}
    return columns


def optional_field(part: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
    """Return a column that holds an attribute of a part of the line, None for a line without that part."""
    return lambda line: getattr(part(line), name, None)


def quartile_text(read: Callable[[Any], Quartiles | None], infinite: str) -> Callable[[Any], str]:
    """Return a column with the text of the quartiles that `read` takes from a line."""
    return lambda line: median_and_quartiles(read(line), infinite)


def break_cell(cell: str, width: int = NARROW) -> str:
    """Return a cell in lines of `width` characters or more; intervals and values with their n stay whole."""
    whole = UNBROKEN.sub(lambda part: part[0].replace(" ", "\0"), cell)
    lines = textwrap.wrap(whole, width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines).replace("\0", " ")


def interval(value: float, low: float, high: float, form: str) -> str:
    """Return a number with its interval: interval(0.5, 0.1, 0.9, "+.2f") -> "+0.50 [+0.10, +0.90]"; "-" for NaN."""
    if math.isnan(value):
        return NONE
    return f"{value:{form}}" if math.isnan(low) else f"{value:{form}} [{low:{form}}, {high:{form}}]"


def median_and_quartiles(at: Quartiles | None, infinite: str = "inf") -> str:
    """Return "median [q25, q75]", infinity as the word `infinite`; "-" without values."""
    if at is None or math.isnan(at.median):
        return NONE
    q25, median, q75 = (three_digits(value, infinite) for value in at)
    return f"{median} [{q25}, {q75}]"


def p_value(p: float, digits: int = 3) -> str:
    """Return a p-value with this many significant digits, "-" for NaN."""
    return NONE if math.isnan(p) else f"{p:.{digits}g}"
