"""What `lengthwise evaluate` prints: the curves that it was asked for, and where figure and table are."""

from collections.abc import Collection
from pathlib import Path

from rich.console import Console
from rich.text import Text

from orchestrator.consoles import say
from orchestrator.report.files import REPORT_HTML, read_summary
from orchestrator.report.tables.later_evaluations import later_section
from orchestrator.report.terminal import lay_out, prose, rich_table


def show_later_evaluations(folder: Path, keys: Collection[object], console: Console) -> None:
    """Print the later evaluations with these keys (`evaluation_key`) at all of their lengths."""
    result = read_summary(folder)
    section = later_section(result, [one for one in result.later_evaluations if one.key in keys])
    console.print(Text(section.heading, style="bold"))
    for part in lay_out(section.cells, console.width, section.keys):
        console.print(rich_table(part))
    for note in section.notes:
        console.print(prose(note, console, result, "dim"))
    figures = [f"Figure: {path}" for path in sorted(result.folder.glob("figures/later*.png"))]
    say(
        console,
        "\n".join([*figures, f"Table: {result.folder / section.csv}", f"Report: {result.folder / REPORT_HTML}"]),
    )
