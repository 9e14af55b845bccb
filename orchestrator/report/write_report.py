"""Write the files of a report: report.html and the CSV tables beside it."""

import shlex
import tempfile
import threading
import time
import webbrowser
from collections.abc import Collection, Iterator
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.text import Text

from orchestrator.errors import UserError
from orchestrator.record.files.curves import read_curves, write_curves
from orchestrator.record.ledger.folders import LEDGER_FILE, REPORT_HTML, has_ledger, make_no_sweep_error
from orchestrator.record.state.state import SweepState
from orchestrator.report.csv_tables import OUTDATED_FILES, REPORT_CSV, TABLES, make_csv_tables, write_csv
from orchestrator.report.page.render import render_page
from orchestrator.report.tables.later_evaluation_table import make_later_section
from orchestrator.report.terminal import Screen, make_rich_table, split_table
from orchestrator.results.make_summary import summarize
from orchestrator.results.summary import Summary
from orchestrator.text.consoles import say, wrap_sentence
from trainers.files.atomic_file import write_atomic

MIN_PAGE_SECONDS = 10.0  # between two pages of a running sweep
FIRST_PAGE_SECONDS = 1.0  # before its first evaluation, which a reader waits for


def present_report(folder: Path, console: Console, *, quiet: bool = False, show: bool = False) -> None:
    """Write curves.parquet, page and tables of a sweep, and print its results unless `quiet`.

    `show` opens the page in a browser. Raises NotASweep, DamagedLedger and DamagedCurves.
    """
    # The files come first, so a broken pipe or console loses none of them.
    summary, curves = _read_results(folder)
    write_curves(summary.state, curves)
    write_report(folder, summary, curves)

    if not quiet:
        console.print(Screen(summary))
    if show and not webbrowser.open((folder / REPORT_HTML).resolve().as_uri()):
        say(console, f"no browser found; open {folder / REPORT_HTML}")


def refuse_read_only(folder: Path) -> None:
    """Raise UserError with the commands that report a copy if the folder of a sweep is read-only."""
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        # A folder without a sweep has a better error.
        if not has_ledger(folder):
            raise make_no_sweep_error(folder) from None
        copy = f"cp -r {shlex.quote(str(folder))} COPY && lengthwise report COPY"
        raise UserError(f"{folder}: cannot write the report: {error.strerror}; report a copy: {copy}") from error


def _read_results(folder: Path) -> tuple[Summary, pd.DataFrame]:
    """Return the summary and all curves of the sweep in `folder`; raises what reading its ledger and curves raises."""
    state = SweepState.load(folder)
    curves = read_curves(state)
    return summarize(state, curves), curves


def write_report(folder: Path, summary: Summary | None = None, curves: pd.DataFrame | None = None) -> tuple[Path, Path]:
    """Write report.html and the CSV tables of a sweep, finished or not; return the paths of report.html and report.csv.

    `summary` and `curves` are the summary and all curves of the sweep, if both are known. Deletes CSV tables of an
    earlier report that this report does not have.
    """
    if summary is None or curves is None:
        summary, curves = _read_results(folder)

    # An old table that this report lacks would contradict it.
    tables = make_csv_tables(summary)
    write_atomic(folder / REPORT_HTML, [render_page(summary, curves).encode()])
    for name, lines in tables.items():
        write_csv(folder / name, lines, ["config_id"])
    for name in {*TABLES, *OUTDATED_FILES} - tables.keys():
        (folder / name).unlink(missing_ok=True)
    return folder / REPORT_HTML, folder / REPORT_CSV


def list_report_files(folder: Path) -> list[Path]:
    """Return the existing files of a report: the page and its tables."""
    return [path for name in (REPORT_HTML, *TABLES) if (path := folder / name).is_file()]


def write_page(folder: Path) -> tuple[Summary, pd.DataFrame]:
    """Write only report.html from the current ledger; return the summary and the curves of the sweep.

    Raises what reading ledger and curves raises.
    """
    summary, curves = _read_results(folder)
    write_atomic(folder / REPORT_HTML, [render_page(summary, curves).encode()])
    return summary, curves


def refresh_page(folder: Path, ended: threading.Event) -> Iterator[tuple[Summary, pd.DataFrame]]:
    """Rewrite the page after new records of a running sweep, until `ended` is set; yield what each page shows.

    Pages are at least MIN_PAGE_SECONDS apart, before the first evaluation FIRST_PAGE_SECONDS, and writing them takes at
    most a fifth of the time.
    """
    written_size, seconds = -1, FIRST_PAGE_SECONDS
    wait_seconds = 0.0
    while not ended.wait(wait_seconds):
        began = time.monotonic()
        size = (folder / LEDGER_FILE).stat().st_size
        if size != written_size:
            summary, curves = write_page(folder)
            yield summary, curves
            written_size, seconds = size, MIN_PAGE_SECONDS if len(curves) else FIRST_PAGE_SECONDS
        wait_seconds = max(seconds, 4 * (time.monotonic() - began))


def show_later_evaluations(folder: Path, keys: Collection[object], console: Console) -> None:
    """Print a table of the later evaluations with these keys (`make_evaluation_key`), at all of their lengths."""
    summary = summarize(SweepState.load(folder))
    section = make_later_section(
        summary, [evaluation for evaluation in summary.later_evaluations if evaluation.key in keys]
    )
    console.print(Text(section.heading, style="bold"))
    for part in split_table(section.cells, console.width, keys=2):
        console.print(make_rich_table(part))
    for note in section.notes:
        console.print(wrap_sentence(note, console, "dim"))

    say(console, f"Table: {summary.folder / 'later_evaluations.csv'}\nReport: {summary.folder / REPORT_HTML}")
