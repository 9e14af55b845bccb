"""Print a sweep on one screen of a terminal or in a log, without cropping numbers or breaking intervals."""

import math
import textwrap
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from orchestrator.record.ledger.folders import REPORT_HTML
from orchestrator.report.judging_notes import describe_columns
from orchestrator.report.sentences import make_answers
from orchestrator.report.tables.columns import CELL_WIDTH, Cells, break_cell, make_cells
from orchestrator.report.tables.configuration_tables import (
    CONFIG_ID,
    IN_SEARCH,
    make_identity_columns,
    make_result_columns,
    make_value_columns,
)
from orchestrator.results.confirmation import read_search_labels
from orchestrator.results.seed_failures import describe_retry, make_failure_rows
from orchestrator.results.summary import ConfigurationResult, Summary
from orchestrator.text.consoles import wrap_sentence, wrap_words
from orchestrator.text.wording import format_command, format_count

MIN_LINES = 20  # lines of a screen; a window that is higher than MIN_LINES + SPARE_LINES has more
SPARE_LINES = 5  # of a window, for what stands around the screen
MIN_ROWS, MAX_FILE_ROWS = 3, 20  # configurations in the table of a window, and of a file
KEPT_ANSWERS = 3  # of a window without room: the status, the best configuration, and how it compares
LEAST_NEEDED = ("reach", "trained")  # columns that a narrow table leaves out before searched values
MAX_CAUSES = 3  # of failed seeds, each named; if some diverged and others crashed, one of each
MAX_CONFIRMATION = 400  # characters of the sentences on a confirmation, in a window without room
LEFT_ALIGNED = {
    "label",
    "at lengths",
    "against",
    "form",
    "searched values",
    CONFIG_ID,
    IN_SEARCH,
    "first",
    "second",
    "task",
}


def split_table(cells: Cells, width: int, keys: int) -> list[Cells]:
    """Return the table if it fits, else several tables with broken cells that repeat the first `keys` columns.

    Beside a wide column fewer of the first columns are repeated.
    """
    if measure_table(cells) <= width:
        return [cells]

    # Break long cells into lines, and a heading to the width of its cells, but not below half of CELL_WIDTH.
    broken = {}
    for heading, column in cells.items():
        column = [break_cell(cell) for cell in column]
        room = max(CELL_WIDTH // 2, *(len(line) for cell in column for line in cell.split("\n")))
        broken[break_cell(heading, room)] = column

    # A column that does not fit begins a new table, with as many of the first columns as fit beside it.
    names, tables = list(broken), list[Cells]([{}])
    for number, name in enumerate(names):
        added = {name: broken[name]}
        if tables[-1] and measure_table(tables[-1] | added) > width:
            candidates = [{key: broken[key] for key in names[:count]} for count in range(min(keys, number), 0, -1)]
            tables.append(next((columns for columns in candidates if measure_table(columns | added) <= width), {}))
        tables[-1] |= added
    return tables


def measure_table(cells: Cells) -> int:
    """Return the width in characters of a table of `make_rich_table`."""
    return sum(
        2 + max(len(line) for text in (name, *column) for line in text.split("\n")) for name, column in cells.items()
    )


def make_rich_table(cells: Cells) -> Table:
    """Return a table without a frame."""
    style: dict[str, Any] = {"box": box.SIMPLE_HEAD, "show_edge": False, "pad_edge": False, "padding": (0, 0, 0, 1)}
    table = Table(header_style="bold", **style)

    for heading in cells:
        table.add_column(
            Text(heading), justify="left" if heading.replace("\n", " ") in LEFT_ALIGNED else "right", no_wrap=True
        )
    for line in zip(*cells.values(), strict=True):
        table.add_row(*map(Text, line))
    return table


class Screen:
    """Renders a sweep on one screen: answers, then the first configurations, as many as the window has room for.

    Sentences are whole: a window without room has fewer rows, then fewer sentences. A file has all sentences.
    """

    def __init__(self, summary: Summary) -> None:
        self.summary = summary

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        summary, width = self.summary, options.max_width
        rows = [row for row in summary.rows if row.is_complete]
        room, answers, failures = self._choose_version(console, width, rows)
        yield Text(f"Sweep {summary.name}", style="bold")
        yield from (wrap_sentence(text, console) for text in answers)
        yield ""

        # Only the first rows, with the columns that fit: the page has the others, and the legend explains what is
        # shown.
        omitted = []
        if rows:
            cells = self._make_cells(rows[:room], width)
            yield from map(make_rich_table, split_table(cells, width, keys=2))
            yield wrap_sentence(describe_columns(summary, cells), console, "dim")
            hidden = [name for name in make_cells(rows, make_value_columns(summary)) if name not in cells]
            results = make_cells(rows, make_result_columns(summary), summary.infinity_text)
            omitted += [format_count(len(rows) - room, "more configuration")] if len(rows) > room else []
            omitted += [f"values of {', '.join(hidden)}"] if hidden else []
            omitted += [name for name in LEAST_NEEDED if name in results and name not in cells]

        # Name the content that only the page has, and its path.
        more = [f"On the page: {'; '.join(omitted)}"] if omitted else []
        if summary.notes:
            count = f" (1 of {len(summary.notes)})" if len(summary.notes) > 1 else ""
            room = width - len(". ".join([*more, f"Note{count}: "]))
            note = _cut_sentences(summary.notes[0], max(1, room), 1) if console.is_terminal else summary.notes[0]
            more.append(f"Note{count}: {note}")
        if more:
            yield self._render_line(". ".join(more), console, width)
        yield from (wrap_sentence(text, console) for text in failures)
        yield Text(f"Page: {summary.folder / REPORT_HTML}", no_wrap=True, overflow="ignore")

    def _choose_version(
        self, console: Console, width: int, rows: Sequence[ConfigurationResult]
    ) -> tuple[int, list[str], list[str]]:
        """Return the number of rows, and the fullest answers and failures that leave room for MIN_ROWS of them."""
        versions = self._list_versions(width)
        answers, failures = next(versions)
        room, min_rows = MAX_FILE_ROWS, min(MIN_ROWS, len(rows))
        if console.is_terminal:
            # Besides: the name, an empty line, the heading and its rule, the content and path of the page.
            max_lines = max(MIN_LINES, console.height - SPARE_LINES)
            if rows:
                legend = describe_columns(self.summary, self._make_cells(rows[:max_lines], width))
                max_lines -= 2 + len(textwrap.wrap(legend, width))
            room = max_lines - 4 - self._count_lines([*answers, *failures], console)
            while room < min_rows and (version := next(versions, None)):
                answers, failures = version
                room = max_lines - 4 - self._count_lines([*answers, *failures], console)
            room = max(room, min_rows)
        return room + (len(rows) == room + 1), answers, failures  # a line that names one missing row is as long

    def _make_cells(self, rows: Sequence[ConfigurationResult], width: int) -> Cells:
        """Return the table of these rows with the columns that fit a width."""
        return make_short_table(self.summary, rows, lambda cells: measure_table(cells) <= width)

    def _list_versions(self, width: int) -> Iterator[tuple[list[str], list[str]]]:
        """Yield the answers above the table and the failures below it, whole, then ever shorter."""
        answers = make_answers(self.summary, with_values=False, with_lead=True)
        failures = self._make_failure_lines(MAX_CAUSES)
        yield answers, failures

        # Leave out the last sentences of a confirmation, then the last answers, then causes of failures.
        max_lines = math.ceil(MAX_CONFIRMATION / width)
        answers = [
            _cut_sentences(text, width, max_lines) if text.startswith("Confirmation ") else text for text in answers
        ]
        yield answers, failures
        for count in range(len(answers) - 1, KEPT_ANSWERS - 1, -1):
            yield answers[:count], failures
        yield answers[:KEPT_ANSWERS], self._make_failure_lines(1)

    def _render_line(self, text: str, console: Console, width: int) -> RenderableType:
        """Return a text in one line, which is cut on a terminal."""
        if console.is_terminal:
            (text,) = textwrap.wrap(text, width, max_lines=1, placeholder=" ...")
        return wrap_sentence(text, console, "dim")

    def _count_lines(self, texts: Sequence[str], console: Console) -> int:
        """Return the number of lines that texts of `wrap_sentence` take on a terminal."""
        lines = (line for text in texts for line in wrap_words(text, console).split("\n"))
        return sum(math.ceil(len(line) / console.width) for line in lines)

    def _make_failure_lines(self, max_causes: int) -> list[str]:
        """Return texts that name the seeds that diverged, those that crashed, and the command that retries these.

        The most frequent causes are named.
        """
        summary = self.summary
        rows = make_failure_rows(summary.state, read_search_labels(summary.state.provenance))
        lines = []
        for kind in dict.fromkeys(kind for kind, _ in rows):
            texts = [text for other, text in rows if other == kind]
            for number, text in enumerate(texts[: max_causes if len(texts) == len(rows) else 1], start=1):
                count = f" ({number} of {len(texts)} causes)" if len(texts) > 1 else ""
                lines.append(f"{kind.capitalize()}{count}: {text}")
        if retry := describe_retry(summary.state):
            traces = f"Tracebacks: {format_command('status', summary.folder)} --trace"
            lines.append(traces if summary.status == "running" else f"{traces}; {retry}")
        return lines


def _cut_sentences(text: str, width: int, max_lines: int) -> str:
    """Return as many whole sentences of a text as fit, then "..." if some do not; the first one in any case."""
    shown = text
    while len(textwrap.wrap(shown, width)) > max_lines and (end := text.rfind(". ")) > 0:
        text = text[: end + 1]
        shown = f"{text} ..."
    return shown


def make_short_table(summary: Summary, rows: Sequence[ConfigurationResult], fits: Callable[[Cells], bool]) -> Cells:
    """Return the columns of the table of `rows` that fit.

    The config_id is always left out; if needed the quartiles, then LEAST_NEEDED, then values.
    """
    # Hide columns that say nothing in this sweep.
    names = make_cells(rows, make_identity_columns(summary))
    values = make_cells(rows, make_value_columns(summary))
    del names[CONFIG_ID]
    hidden = {"form"} if summary.has_unequal_seeds else {"seeds", "form"}
    hidden |= {"score"} if summary.is_score_selection_median else set()
    hidden |= set() if summary.seeds_failed else {"failed"}
    columns = [column for column in make_result_columns(summary) if column.heading not in hidden]
    results = make_cells(rows, columns, summary.infinity_text)

    # Leave out what is needed least, until the rest fits.
    if not fits(names | values | results):
        results = {name: [cell.partition(" [")[0] for cell in column] for name, column in results.items()}
    for heading in LEAST_NEEDED:
        if not fits(names | values | results):
            results.pop(heading, None)
    shown: Cells = {}
    for name, column in values.items():
        if fits(names | shown | {name: column} | results):
            shown[name] = column
    return names | shown | results
