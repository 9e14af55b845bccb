"""Print a sweep on one screen of a terminal or in a log, without cropping numbers or breaking intervals."""

import math
import textwrap
from collections.abc import Callable, Sequence
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
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
from orchestrator.results.seed_failures import advise_retry, make_failure_rows
from orchestrator.results.summary import ConfigurationResult, Summary
from orchestrator.text.wording import format_command, format_count

MAX_LINES, LINE_WIDTH = 20, 100  # of a screen that names failed seeds: its table has fewer rows
MIN_ROWS, MAX_ROWS = 2, 6  # configurations in the table
LEAST_NEEDED = ("reach", "trained")  # columns that a narrow table leaves out before searched values
MAX_CAUSES = 3  # of failed seeds, a line each; if some diverged and others crashed, one of each
MAX_SENTENCE = 200  # characters of an answer
MAX_CONFIRMATION = 400  # characters of the sentences on a confirmation
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


def make_sentence_text(text: str, console: Console, summary: Summary, style: str = "") -> RenderableType:
    """Return a sentence that wraps on a terminal, unless it contains the sweep's folder; files have it on one line."""
    unwrapped = not console.is_terminal or str(summary.folder) in text
    # In a group, because rich joins bare texts into a new one, which would wrap.
    return Group(Text(text, style=style, no_wrap=unwrapped, overflow="ignore" if unwrapped else "fold"))


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
    """Renders a sweep on about 20 lines of 100 characters: answers, then the first configurations."""

    def __init__(self, summary: Summary) -> None:
        self.summary = summary

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # Sentences on a confirmation get more room, because their verdict comes late.
        summary = self.summary
        width = options.max_width
        yield Text(f"Sweep {summary.name}", style="bold")
        lines = 1
        for sentence in make_answers(summary, with_values=False):
            room = MAX_CONFIRMATION if sentence.startswith("Confirmation ") else MAX_SENTENCE
            lines += _count_lines(sentence[:room])
            if console.is_terminal and str(summary.folder) not in sentence:  # a command is copied as one line
                max_lines = math.ceil(room / width)
                if room == MAX_CONFIRMATION:
                    sentence = _cut_sentences(sentence, width, max_lines)
                sentence = "\n".join(textwrap.wrap(sentence, width, max_lines=max_lines, placeholder=" ..."))
            yield make_sentence_text(sentence, console, summary)

        # Only the first rows, with the columns that fit: the page has the others, and the legend explains what is
        # shown.
        rows = [row for row in summary.rows if row.is_complete]
        failures = self._make_failure_lines(console, width)
        room = MAX_ROWS
        if rows:
            yield ""
            cells = make_short_table(summary, rows[:room], lambda cells: measure_table(cells) <= width)
            if failures and console.is_terminal:
                # Besides rows: an empty line, the heading and its rule, the legend, the content and path of the page.
                lines += len(failures) + _count_lines(describe_columns(summary, cells)) + 5
                room = max(MIN_ROWS, min(MAX_ROWS, MAX_LINES - lines))
                cells = {name: column[:room] for name, column in cells.items()}
            yield from map(make_rich_table, split_table(cells, width, keys=2))
            hidden = [name for name in make_cells(rows, make_value_columns(summary)) if name not in cells]
            results = make_cells(rows, make_result_columns(summary), summary.infinity_text)
            omitted = [format_count(len(rows) - room, "configuration")] if len(rows) > room else []
            omitted += [f"values of {', '.join(hidden)}"] if hidden else []
            omitted += [name for name in LEAST_NEEDED if name in results and name not in cells]
            yield make_sentence_text(describe_columns(summary, cells), console, summary, "dim")
        else:
            yield ""
            omitted = []

        # Name the content that only the page has, and its path.
        if summary.notes:
            omitted.append(f"{format_count(len(summary.notes), 'note')}, the first: {summary.notes[0]}")
        if omitted:
            (more,) = textwrap.wrap(f"more on the page: {'; '.join(omitted)}", width, max_lines=1, placeholder=" ...")
            yield Text(more, "dim")
        yield from (Text(line, no_wrap=True, overflow="ignore") for line in failures)
        yield Text(f"Page: {summary.folder / REPORT_HTML}", no_wrap=True, overflow="ignore")

    def _make_failure_lines(self, console: Console, width: int) -> list[str]:
        """Return lines that name the seeds that diverged, those that crashed, and the command that retries these.

        The most frequent causes have a line each; a terminal cuts it, but not the commands.
        """
        summary = self.summary
        rows = make_failure_rows(summary.state, read_search_labels(summary.state.provenance))
        lines = []
        for kind in dict.fromkeys(kind for kind, _ in rows):
            texts = [text for other, text in rows if other == kind]
            for number, text in enumerate(texts[: MAX_CAUSES if len(texts) == len(rows) else 1], start=1):
                count = f" ({number} of {len(texts)} causes)" if len(texts) > 1 else ""
                line = f"{kind.capitalize()}{count}: {text}"
                lines += textwrap.wrap(line, width, max_lines=1, placeholder=" ...") if console.is_terminal else [line]
        if retry := advise_retry(summary.state):
            traces = f"Tracebacks: {format_command('status', summary.folder)} --trace"
            lines.append(traces if summary.status == "running" else f"{traces}; retry the crashed ones with: {retry}")
        return lines


def _cut_sentences(text: str, width: int, max_lines: int) -> str:
    """Return as many whole sentences of a text as fit, then "..." if some do not; the first one in any case."""
    shown = text
    while len(textwrap.wrap(shown, width)) > max_lines and (end := text.rfind(". ")) > 0:
        text = text[: end + 1]
        shown = f"{text} ..."
    return shown


def _count_lines(text: str) -> int:
    """Return the number of lines of LINE_WIDTH characters that a text takes."""
    return math.ceil(len(text) / LINE_WIDTH)


def make_short_table(summary: Summary, rows: Sequence[ConfigurationResult], fits: Callable[[Cells], bool]) -> Cells:
    """Return the columns of the table of `rows` that fit.

    The config_id is always left out; if needed the quartiles, then LEAST_NEEDED, then values.
    """
    # Hide columns that say nothing in this sweep.
    names = make_cells(rows, make_identity_columns(summary))
    values = make_cells(rows, make_value_columns(summary))
    del names[CONFIG_ID]
    hidden = {"form"} if summary.has_unequal_seeds else {"seeds", "form"}
    score_is_median = summary.objective.reduce == "mean" and summary.objective.seeds == "median"
    hidden |= {"score"} if score_is_median else set()  # shown as the median at the selection lengths
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
