"""A report in a terminal or a log: one screen, or every table. Nothing is cut, and intervals are never broken."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from orchestrator.report.csv_tables import REPORT_CSV
from orchestrator.report.sections import make_sections
from orchestrator.report.tables.clear_effects import clear_averages, clear_cells, clear_sentence
from orchestrator.report.tables.columns import NARROW, Cells, break_cell, make_cells, median_and_quartiles
from orchestrator.report.tables.configurations import CONFIG_ID, IN_SEARCH, place_columns, result_columns, value_columns
from orchestrator.report.tables.seed_comparisons import short_sentences
from orchestrator.report.tables.sentences import (
    best_sentence,
    count_sentences,
    headlines,
    order_sentence,
    selection_sentence,
    state_sentence,
    threshold_words,
)
from orchestrator.report.tables.value_comparisons import value_section
from orchestrator.results.analysis import read_confirmations, shows_effects, why_no_effects
from orchestrator.results.comparing.value_comparisons import compare_values
from orchestrator.results.summary import Row, Summary
from orchestrator.wording import label

ROWS, EFFECTS, CONFIRMED, NOTES = 6, 6, 3, 3  # at most, on one screen; the others are counted
VALUES, ROWS_BELOW_VALUES = 6, 3
LEFT = {"label", "hyperparameter", "at lengths", "median by value", "average", "against", "form", "searched values"}
LEFT |= {"effect of", CONFIG_ID, IN_SEARCH, "first", "second", "key", "value", "task"}
FIGURES = ("comparison", "evaluations", "score-*", "pair-*", "steps-*", "family-*", "maps-*", "later", "later-*")


def prose(text: str, console: Console, result: Summary, style: str = "") -> Text:
    """Return a sentence that is wrapped on a terminal, but whole in files and if it names the sweep's folder."""
    whole = not console.is_terminal or str(result.folder) in text
    return Text(text, style=style, no_wrap=whole, overflow="ignore" if whole else "fold")


def find_figures(folder: Path) -> list[Path]:
    """Return the figures in the folder of a sweep, but for those of single configurations."""
    return sorted(path for kind in FIGURES for path in folder.glob(f"figures/{kind}.png"))


def lay_out(cells: Cells, width: int, keys: int) -> list[Cells]:
    """Return the table if it fits, else several tables with broken cells that repeat the first `keys` columns.

    A column too wide for all of them has fewer beside it.
    """
    if table_width(cells) <= width:
        return [cells]
    broken = {}
    for heading, column in cells.items():
        column = [break_cell(cell) for cell in column]
        room = max(NARROW // 2, *(len(line) for cell in column for line in cell.split("\n")))
        broken[break_cell(heading, room)] = column
    names, tables = list(broken), list[Cells]([{}])
    for place, name in enumerate(names):
        added = {name: broken[name]}
        if tables[-1] and table_width(tables[-1] | added) > width:
            beside = [{key: broken[key] for key in names[:count]} for count in range(min(keys, place), 0, -1)]
            tables.append(next((one for one in beside if table_width(one | added) <= width), {}))
        tables[-1] |= added
    return tables


def table_width(cells: Cells) -> int:
    """Return how many characters wide `rich_table` draws a table."""
    return sum(
        2 + max(len(line) for text in (name, *column) for line in text.split("\n")) for name, column in cells.items()
    )


def rich_table(cells: Cells) -> Table:
    """Return a table without lines around it."""
    look: dict[str, Any] = {"box": box.SIMPLE_HEAD, "show_edge": False, "pad_edge": False, "padding": (0, 0, 0, 1)}
    table = Table(header_style="bold", **look)
    for heading in cells:
        table.add_column(Text(heading), justify="left" if heading.replace("\n", " ") in LEFT else "right", no_wrap=True)
    for line in zip(*cells.values(), strict=True):
        table.add_row(*map(Text, line))
    return table


class FullReport:
    """Prints every table of a sweep, at most `rows` lines of each."""

    def __init__(self, result: Summary, rows: int | None = None) -> None:
        self.result, self.rows = result, rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        result = self.result
        yield from (prose(line, console, result) for line in headlines(result))
        for section in make_sections(result):
            yield ""
            yield Text(section.heading, style="bold")
            most = min((n for n in (section.most, self.rows) if n is not None), default=None)
            cells = {name: column[:most] for name, column in section.cells.items()}
            for place, part in enumerate(lay_out(cells, options.max_width, section.keys) if cells else ()):
                if place:
                    yield ""
                yield rich_table(part)
            more = max(map(len, section.cells.values()), default=0) - max(map(len, cells.values()), default=0)
            if more:
                yield Text(f"... and {more} more in {section.csv}", style="dim")
            yield from (prose(line, console, result) for line in section.paragraphs)
            yield from (prose(note, console, result, "dim") for note in section.notes)
        if drawn := find_figures(result.folder):
            yield ""
            yield Text("Figures")
            yield from (Text(f"  {path}", no_wrap=True, overflow="ignore") for path in drawn)


class ShortReport:
    """Prints one screen: how the sweep was judged, its first configurations, clear effects, and what confirms it."""

    def __init__(self, result: Summary) -> None:
        self.result = result

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        result = self.result
        lines = [state_sentence(result), *count_sentences(result)]
        if result.rows:
            lines += [selection_sentence(result), *best_sentence(result), *order_sentence(result)]
            lines += short_sentences(result)
        lines += _truncate_lines(result.notes, NOTES, "report.html")
        yield from (prose(line, console, result) for line in lines)
        for make_part in (self._values, self._configurations, self._effects, self._confirmed):
            part = [
                prose(one, console, result) if isinstance(one, str) else one for one in make_part(options.max_width)
            ]
            yield from ["", *part] if part else []

    def _values(self, width: int) -> Iterator[RenderableType]:
        if compare_values(self.result):
            section = value_section(self.result, short=True)
            yield from section.paragraphs
            yield from _truncate_table(section.cells, VALUES, "report.html", width, section.keys)

    def _configurations(self, width: int) -> Iterator[RenderableType]:
        result, rows = self.result, [row for row in self.result.rows if row.complete]
        if not rows:
            return
        most = ROWS_BELOW_VALUES if compare_values(result) else ROWS
        cells, left_out = short_table(result, rows[:most], lambda cells: table_width(cells) <= width)
        reach = "" if result.objective.threshold is None else f"; reach: {threshold_words(result)} up to this length"
        yield Text(f"Configurations by score (medians{reach})", style="bold")
        yield from map(rich_table, lay_out(cells, width, keys=2))
        if len(rows) > most:
            yield Text(f"... and {len(rows) - most} more in {REPORT_CSV}", style="dim")
        if left_out:
            yield f"Not shown: {', '.join(left_out)} (see {REPORT_CSV})."

    def _effects(self, width: int) -> Iterator[RenderableType]:
        result = self.result
        if shows_effects(result):
            yield clear_sentence(result)
            if cells := clear_cells(result):
                yield from _truncate_table(cells, EFFECTS, "effects.csv", width)
        elif reason := why_no_effects(result):
            yield reason
        yield from clear_averages(result)

    def _confirmed(self, width: int) -> Iterator[RenderableType]:
        for one in read_confirmations(self.result):
            yield f"{one.sentence}."
            lines = [
                f"  {label(row.number)} in {one.parent}: "
                f"search score {median_and_quartiles(row.search, self.result.infinite)}, "
                f"confirmed score {median_and_quartiles(row.confirmed, self.result.infinite)}"
                for row in one.rows
            ]
            yield from _truncate_lines(lines, CONFIRMED, "confirmed.csv")


def short_table(result: Summary, rows: Sequence[Row], fits: Callable[[Cells], bool]) -> tuple[Cells, list[str]]:
    """Return as much of the table of `rows` as fits, and the names of the searched values that do not.

    The config_id is left out first, then the quartiles, then values.
    """
    place, values = make_cells(rows, place_columns(result)), make_cells(rows, value_columns(result))
    hidden = {"form"} if result.has_unequal_seeds else {"seeds", "form"}
    hidden |= {"score"} if result.objective.reduce == "mean" else set()  # it is the median at the selection lengths
    hidden |= set() if result.seeds_failed else {"failed"}
    columns = {name: one for name, one in result_columns(result, lengths=False).items() if name not in hidden}
    results = make_cells(rows, columns)
    if fits(place | values | results):
        return place | values | results, []
    del place[CONFIG_ID]
    if not fits(place | values | results):
        results = {name: [cell.partition(" [")[0] for cell in column] for name, column in results.items()}
    shown: Cells = {}
    for name, column in values.items():
        if fits(place | shown | {name: column} | results):
            shown[name] = column
    return place | shown | results, [name for name in values if name not in shown]


def _truncate_table(cells: Cells, most: int, where: str, width: int, keys: int = 2) -> Iterator[RenderableType]:
    """Yield the first `most` lines of a table, and how many more are in the file `where`."""
    yield from map(rich_table, lay_out({name: column[:most] for name, column in cells.items()}, width, keys))
    if (more := len(next(iter(cells.values()))) - most) > 0:
        yield Text(f"... and {more} more in {where}", style="dim")


def _truncate_lines(lines: Sequence[str], most: int, where: str) -> list[str]:
    more = len(lines) - most
    return [*lines[:most], *([f"  ... and {more} more in {where}"] if more > 0 else [])]
