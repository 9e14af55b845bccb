"""Every table of a sweep for a terminal: what `lengthwise report --full` prints."""

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from orchestrator.report.sections import Layout, sections
from orchestrator.report.tables.tables import headlines
from orchestrator.report.terminal.columns import WIDE, prose, rich_table
from orchestrator.results.summary import Summary

FIRST = 20  # configurations that are shown


class FullReport:
    """Lays the tables out for the width it is given: below WIDE the searched values get a table of their own."""

    def __init__(self, result: Summary, rows: int = FIRST) -> None:
        self.result, self.rows = result, rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        result, wide = self.result, options.max_width >= WIDE
        yield from (prose(line, console, result) for line in headlines(result))
        for section in sections(result, Layout(rows=self.rows, wide=wide)):
            for title, columns in section.tables.items():
                yield ""
                yield rich_table(title, columns, wide or not section.breaks_headings)
            if not section.tables:
                yield ""
            more, where = section.more
            if more > 0:
                yield Text(f"... and {more} more in {where}", style="dim")
            yield from (prose(line, console, result) for line in section.paragraphs)
            yield from (prose(note, console, result, "dim") for note in section.notes)
        drawn = sorted(
            path
            for kind in ("evaluations", "comparison", "score-", "pair-", "steps-", "family-", "maps-")
            for path in result.folder.glob(f"figures/{kind}*.png")
        )
        if drawn:
            yield ""
            yield Text("Figures")
            yield from (Text(f"  {path}", no_wrap=True, overflow="ignore") for path in drawn)
