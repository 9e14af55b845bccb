"""What a sweep prints when it ends and when it is reported: one screen, or with `full` every table."""

from collections.abc import Callable, Iterator, Sequence

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from orchestrator.report.csv_tables import CONFIRMED_CSV, EFFECTS_CSV, REPORT_CSV
from orchestrator.report.tables.clear_effects import clear_averages, clear_columns, clear_sentence, effect_lines
from orchestrator.report.tables.order_sentence import order_sentence
from orchestrator.report.tables.seed_comparison_tables import short_sentences
from orchestrator.report.tables.tables import (
    CONFIG_ID,
    Columns,
    counts,
    first_sentence,
    place_columns,
    quartiles_cell,
    result_columns,
    selection_sentence,
    state_sentence,
    value_columns,
)
from orchestrator.report.terminal.columns import prose, rich_table
from orchestrator.report.terminal.full_report import FullReport
from orchestrator.results.analysis import read_confirmations, shows_effects, why_no_effects
from orchestrator.results.summary import Row, Summary
from orchestrator.wording import label

ROWS, EFFECTS, CONFIRMED, NOTES = 6, 6, 3, 3  # shown at most; the rest is counted
UNBOUNDED = 10**6  # columns of a console


def render_terminal(result: Summary, *, full: bool = False) -> RenderableType:
    """How the sweep was judged, its first configurations, clear effects, what confirms it and what failed."""
    return FullReport(result) if full else ShortReport(result)


class ShortReport:
    """Lays one screen out for the width it is given: of the searched values as many as fit beside the medians."""

    def __init__(self, result: Summary) -> None:
        self.result = result

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        result = self.result
        lines = [state_sentence(result), *counts(result)]
        if result.rows:
            lines += [selection_sentence(result), *first_sentence(result), *order_sentence(result)]
            lines += short_sentences(result)
        lines += _cut(result.notes, NOTES, "report.html")
        yield from (prose(line, console, result) for line in lines)
        for part in (self._configurations(console, options), self._effects(console, options), self._confirmed(console)):
            found = list(part)
            yield from ["", *found] if found else []

    def _configurations(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        result, unbounded = self.result, options.update(width=UNBOUNDED)
        rows = [row for row in result.rows if row.complete]
        if not rows:
            return

        def fits(columns: Columns) -> bool:
            table = rich_table("", columns, tight=True)
            return console.measure(table, options=unbounded).maximum <= options.max_width

        columns, left_out = configuration_columns(result, rows[:ROWS], fits)
        meets = "at most" if result.objective.direction == "minimize" else "at least"
        threshold = result.objective.threshold
        reach = "" if threshold is None else f"; reach: {meets} {threshold:g} up to it"
        yield prose(f"Configurations by score (medians over seeds{reach})", console, result, "bold")
        yield rich_table("", columns, tight=True)
        if len(rows) > ROWS:
            yield Text(f"... and {len(rows) - ROWS} more in {REPORT_CSV}", style="dim")
        if left_out:
            yield prose(f"Not shown: {', '.join(left_out)} (see {REPORT_CSV}).", console, result, "dim")

    def _effects(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        result = self.result
        if shows_effects(result):
            yield prose(clear_sentence(result), console, result)
            if columns := clear_columns(result):
                count = len(columns["effect of"])
                columns = {name: cells[:EFFECTS] for name, cells in columns.items()}
                table = rich_table("", columns, tight=True)
                if console.measure(table, options=options.update(width=UNBOUNDED)).maximum <= options.max_width:
                    yield table
                else:
                    yield from (prose(f"  {line}", console, result) for line in effect_lines(columns))
                if count > EFFECTS:
                    yield Text(f"... and {count - EFFECTS} more in {EFFECTS_CSV}", style="dim")
        elif reason := why_no_effects(result):
            yield prose(reason, console, result)
        yield from (prose(line, console, result) for line in clear_averages(result))

    def _confirmed(self, console: Console) -> Iterator[RenderableType]:
        for one in read_confirmations(self.result):
            yield prose(f"{one.sentence}.", console, self.result)
            lines = [
                f"  {label(row.number)}: search score {quartiles_cell(row.search, ' ', self.result.infinite)}, "
                f"confirmed score {quartiles_cell(row.confirmed, ' ', self.result.infinite)}"
                for row in one.rows
            ]
            yield from (prose(line, console, self.result) for line in _cut(lines, CONFIRMED, CONFIRMED_CSV))


def configuration_columns(
    result: Summary, rows: Sequence[Row], fits: Callable[[Columns], bool]
) -> tuple[Columns, list[str]]:
    """The table of `rows`, as much of it as fits, and the names of the searched values that do not.

    What gives way first is the config_id, then the quartiles, then values.
    """
    place, values = place_columns(rows), value_columns(result, rows)
    results = result_columns(result, rows, " ", lengths=False)
    hidden = {"seeds", "form"}
    hidden |= {"score"} if result.objective.reduce == "mean" else set()  # it is the median at the selection lengths
    hidden |= set() if result.seeds_failed else {"failed"}
    results = {name: cells for name, cells in results.items() if name not in hidden}
    if fits({**place, **values, **results}):
        return {**place, **values, **results}, []
    place = {name: cells for name, cells in place.items() if name != CONFIG_ID}
    if fits({**place, **values, **results}):
        return {**place, **values, **results}, []
    results = {name: [cell.partition(" [")[0] for cell in cells] for name, cells in results.items()}
    if fits({**place, **values, **results}):
        return {**place, **values, **results}, []
    shown: Columns = {}
    for name, cells in values.items():
        if fits({**place, **shown, name: cells, **results}):
            shown[name] = cells
    return {**place, **shown, **results}, [name for name in values if name not in shown]


def _cut(lines: Sequence[str], most: int, where: str) -> list[str]:
    more = len(lines) - most
    return [*lines[:most], *([f"  ... and {more} more in {where}"] if more > 0 else [])]
