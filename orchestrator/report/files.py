"""The files of a report: the page, the tables beside it and the figures; `present` also prints their contents."""

import shlex
import tempfile
import threading
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from orchestrator.consoles import say
from orchestrator.errors import UserError
from orchestrator.figures.curves import configuration_figure, draw_all
from orchestrator.figures.drawing import DrawingForks, deferred_figures, is_drawn_as
from orchestrator.figures.heat_maps import explain_missing_maps
from orchestrator.machine.cpus import count_cores
from orchestrator.record.kept.curves import read_curves, write_curves
from orchestrator.record.ledger.folders import REPORT_HTML, has_ledger, make_no_sweep_error
from orchestrator.record.state.state import SweepState
from orchestrator.report.csv_tables import REPORT_CSV, TABLES, csv_tables, write_csv
from orchestrator.report.page import detailed_rows, figure_path, render_page
from orchestrator.report.tables.later_evaluations import later_section
from orchestrator.report.terminal import FullReport, ShortReport, find_figures, lay_out, prose, rich_table
from orchestrator.results.summarise import summary
from orchestrator.results.summary import Summary
from orchestrator.wording import command
from trainers.files.atomic_file import write_atomic


def present(folder: Path, console: Console, *, full: bool = False, quiet: bool = False, scale: str = "auto") -> None:
    """Write curves.parquet, figures and report of a sweep, finished or not, and print the report unless `quiet`.

    `full` prints every table instead of one screen; `scale` is that of the values in figures. Raises NotASweep,
    DamagedLedger and DamagedCurves.
    """
    state = SweepState.load(folder)
    curves = read_curves(state)
    write_curves(state, curves)
    result = replace(summary(state, curves), scale=scale)
    write_report(folder, result)
    if not quiet:
        print_report(result, console, full=full)


def refuse_read_only(folder: Path) -> None:
    """Raise UserError if the folder of a sweep cannot be written, with the way to report a copy."""
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        if not has_ledger(folder):
            raise make_no_sweep_error(folder) from None
        copy = f"cp -r {shlex.quote(str(folder))} COPY && lengthwise report COPY"
        raise UserError(
            f"{folder}: a report is written into the folder of its sweep, which is impossible here: {error.strerror}; "
            f"report a copy: {copy}"
        ) from error


def print_report(result: Summary, console: Console, *, full: bool = False) -> None:
    """Print the report on one screen, or with `full` all of its tables, and where its files are."""
    console.print(FullReport(result) if full else ShortReport(result))
    ends = [
        "",
        *(f"no maps: {line}" for line in explain_missing_maps(result)),
        f"Report: {result.folder / REPORT_HTML}",
    ]
    ends += [f"Table: {result.folder / REPORT_CSV}"] if full else []
    ends += [] if full else [f"All tables: {command('report', result.folder)} --full"]
    say(console, "\n".join(ends))


def read_summary(folder: Path) -> Summary:
    """Return the summary of the sweep in `folder`; raises what reading its ledger and curves raises."""
    return summary(SweepState.load(folder))


def write_report(folder: Path, result: Summary | None = None) -> tuple[Path, Path]:
    """Draw the figures of the sweep in `folder` and write report.html and the CSV tables; returns the first two.

    Works on an unfinished sweep and says that it is. `result` saves reading the sweep again.
    """
    html, table, *_ = Report(result or read_summary(folder), forks=count_cores()).write()
    return html, table


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


class Report:
    """The report of a sweep, whose figures `forks` processes begin to draw at once; without forks `write` draws them.

    `drawn` are the figures of the sweep, `details` those of the configurations shown in detail, by config_id.
    """

    def __init__(self, result: Summary, *, forks: int = 0) -> None:
        self.result = result
        with deferred_figures() as waiting:
            self.drawn = draw_all(result, result.folder / "figures")
            self.details = {
                row.config_id: configuration_figure(result, row, figure_path(result, row))
                for row in detailed_rows(result)
            }
        self._drawing = DrawingForks(waiting, forks)
        self._is_written = threading.Event()

    def write(self) -> list[Path]:
        """Finish the figures, write report.html and the CSV tables; return their paths: page, report.csv, others.

        Deletes tables and figures of an earlier report that this one does not have.
        """
        self._drawing.finish()
        folder, tables = self.result.folder, csv_tables(self.result)
        write_atomic(folder / REPORT_HTML, [render_page(self.result, self.drawn, list(self.details.values())).encode()])
        for name, lines in tables.items():
            write_csv(folder / name, lines, ["config_id"])
        for path in self._find_stale(tables):
            path.unlink(missing_ok=True)
        self.files = [folder / name for name in (REPORT_HTML, *tables)]
        self._is_written.set()
        return self.files

    def _find_stale(self, tables: Collection[str]) -> list[Path]:
        """Return what an earlier report wrote and this one does not; maps of weights stay, drawn on demand."""
        folder = self.result.folder
        figures = set(find_figures(folder)).difference(self.drawn.all, folder.glob("figures/maps-*"))
        absent = (folder / name for name in TABLES if name not in tables)
        return [*filter(is_drawn_as, figures), *(path for path in absent if path.is_file())]

    def wait(self) -> None:
        """Wait until another thread has written everything."""
        self._is_written.wait()
