"""The files of a report: the page, the tables beside it and the figures; `present` also says what they hold."""

from pathlib import Path

from rich.console import Console

from orchestrator.consoles import command, say
from orchestrator.figures.maps import undrawn_maps
from orchestrator.record.state import SweepState
from orchestrator.report.csv_tables import (
    AVERAGES_CSV,
    CONFIRMED_CSV,
    EFFECTS_CSV,
    EVALUATIONS_CSV,
    FAMILIES_CSV,
    REPORT_CSV,
    Lines,
    average_lines,
    configuration_lines,
    confirmed_lines,
    effect_lines,
    family_lines,
    last_and_best_lines,
    write_csv,
)
from orchestrator.report.page import page
from orchestrator.report.terminal import render_terminal
from orchestrator.results.summarise import summary
from orchestrator.results.summary import Summary
from trainers.files.atomic_file import write_whole

REPORT_HTML = "report.html"


def present(folder: Path, console: Console, *, full: bool = False) -> None:
    """Draw the report of a sweep, finished or not, and print it on one screen, or with `full` all of its tables.

    Raises NotASweep, DamagedLedger and DamagedCurves.
    """
    result = read_summary(folder)
    html, table = write_report(folder, result)
    console.print(render_terminal(result, full=full))
    ends = ["", *(f"no maps: {line}" for line in undrawn_maps(result)), f"Report: {html}"]
    ends += [f"Table: {table}"] if full else [f"All tables: {command('report', folder)} --full"]
    say(console, "\n".join(ends))


def read_summary(folder: Path) -> Summary:
    """The summary of the sweep in `folder`; raises what reading its ledger and curves raises."""
    return summary(SweepState.load(Path(folder)))


def write_report(folder: Path, result: Summary | None = None) -> tuple[Path, Path]:
    """Draw the figures of the sweep in `folder` and write report.html and the CSV tables; returns the first two.

    Works on an unfinished sweep and says that it is. `result` spares reading the sweep again.
    """
    folder = Path(folder)
    result = result or read_summary(folder)
    html, table = folder / REPORT_HTML, folder / REPORT_CSV
    write_whole(html, [page(result).encode()])
    for name, lines in csv_tables(result).items():
        write_csv(folder / name, lines, ["config_id"])
    return html, table


def csv_tables(result: Summary) -> dict[str, Lines]:
    """The CSV files of a report, by name; apart from report.csv those that have something to say."""
    found = {
        EFFECTS_CSV: effect_lines(result) if result.shows_effects else [],
        AVERAGES_CSV: average_lines(result),
        CONFIRMED_CSV: confirmed_lines(result.confirmed),
        FAMILIES_CSV: family_lines(result),
        EVALUATIONS_CSV: last_and_best_lines(result),
    }
    return {REPORT_CSV: configuration_lines(result)} | {name: lines for name, lines in found.items() if lines}
