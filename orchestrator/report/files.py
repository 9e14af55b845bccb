"""The files of a report: the page, the tables beside it and the figures; `present` also prints what they hold."""

from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from orchestrator.consoles import say
from orchestrator.figures.curves import configuration_figure, draw_all
from orchestrator.figures.drawing import put_off
from orchestrator.figures.maps import undrawn_maps
from orchestrator.figures.side_by_side import SideBySide, cores
from orchestrator.record.kept.curves import read_curves, write_curves
from orchestrator.record.state.state import SweepState
from orchestrator.report.csv_tables import REPORT_CSV, csv_tables, write_csv
from orchestrator.report.page import figure_of, in_detail, page
from orchestrator.report.terminal.short_report import render_terminal
from orchestrator.results.summarise import summary
from orchestrator.results.summary import Summary
from orchestrator.wording import command
from trainers.files.atomic_file import write_whole

REPORT_HTML = "report.html"


def present(folder: Path, console: Console, *, full: bool = False, quiet: bool = False) -> None:
    """Write curves.parquet, figures and report of a sweep, finished or not, and print the report unless `quiet`.

    `full` prints every table instead of one screen. Raises NotASweep, DamagedLedger and DamagedCurves.
    """
    state = SweepState.load(Path(folder))
    curves = read_curves(state)
    write_curves(state, curves)
    result = summary(state, curves)
    write_report(folder, result)
    if not quiet:
        print_report(result, console, full=full)


def print_report(result: Summary, console: Console, *, full: bool = False) -> None:
    """Print the report on one screen, or with `full` all of its tables, and where its files are."""
    console.print(render_terminal(result, full=full))
    ends = ["", *(f"no maps: {line}" for line in undrawn_maps(result)), f"Report: {result.folder / REPORT_HTML}"]
    ends += [f"Table: {result.folder / REPORT_CSV}"] if full else []
    ends += [] if full else [f"All tables: {command('report', result.folder)} --full"]
    say(console, "\n".join(ends))


def read_summary(folder: Path) -> Summary:
    """Return the summary of the sweep in `folder`; raises what reading its ledger and curves raises."""
    return summary(SweepState.load(Path(folder)))


def write_report(folder: Path, result: Summary | None = None) -> tuple[Path, Path]:
    """Draw the figures of the sweep in `folder` and write report.html and the CSV tables; returns the first two.

    Works on an unfinished sweep and says that it is. `result` saves reading the sweep again.
    """
    html, table, *_ = Report(result or read_summary(folder), forks=cores() - 1).write()
    return html, table


class Report:
    """The report of a sweep, whose figures `forks` processes begin to draw at once; it is written once.

    `drawn` are the figures of the sweep, `details` those of the configurations shown in detail, by config_id.
    `drawn_one` is called after each figure that this process draws.
    """

    def __init__(self, result: Summary, *, forks: int = 0, drawn_one: Callable[[], None] = lambda: None) -> None:
        self.result, self._drawn_one, self._written = result, drawn_one, list[Path]()
        with put_off() as waiting:
            self.drawn = draw_all(result, result.folder / "figures")
            self.details = {
                row.config_id: configuration_figure(result, row, figure_of(result, row)) for row in in_detail(result)
            }
        self._drawing = SideBySide(waiting, forks)

    def finish_figures(self) -> None:
        """Wait until every figure is drawn, drawing too."""
        self._drawing.finish(self._drawn_one)

    def write(self) -> list[Path]:
        """Write report.html and the CSV tables, unless this has; return their paths: the page, report.csv, others."""
        if not self._written:
            self.finish_figures()
            folder, tables = self.result.folder, csv_tables(self.result)
            write_whole(folder / REPORT_HTML, [page(self.result, self.drawn, list(self.details.values())).encode()])
            for name, lines in tables.items():
                write_csv(folder / name, lines, ["config_id"])
            self._written = [folder / name for name in (REPORT_HTML, *tables)]
        return self._written
