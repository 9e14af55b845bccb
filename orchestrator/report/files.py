"""The files of a report: the page, the tables beside it and the figures; `present` also says what they hold."""

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from orchestrator.consoles import say
from orchestrator.figures.curves import Drawn, configuration_figure, draw_all
from orchestrator.figures.drawing import put_off
from orchestrator.figures.maps import undrawn_maps
from orchestrator.figures.side_by_side import SideBySide, cores
from orchestrator.record.state.state import SweepState
from orchestrator.report.csv_tables import (
    AVERAGES_CSV,
    CONFIRMED_CSV,
    EFFECTS_CSV,
    EVALUATIONS_CSV,
    FAMILIES_CSV,
    REPORT_CSV,
    SEED_COMPARISONS_CSV,
    STEPS_CSV,
    VALIDATION_CSV,
    Lines,
    average_lines,
    configuration_lines,
    confirmed_lines,
    effect_lines,
    family_lines,
    last_and_best_lines,
    seed_comparison_lines,
    steps_lines,
    validation_lines,
    write_csv,
)
from orchestrator.report.page import figure_of, in_detail, page
from orchestrator.report.terminal.short_report import render_terminal
from orchestrator.results.analysis import read_confirmations, shows_effects
from orchestrator.results.comparing.seed_comparisons import compare_seeds
from orchestrator.results.summarise import summary
from orchestrator.results.summary import Row, Summary
from orchestrator.wording import command
from trainers.files.atomic_file import write_whole

REPORT_HTML = "report.html"


def present(folder: Path, console: Console, *, full: bool = False) -> None:
    """Draw the report of a sweep, finished or not, and print it on one screen, or with `full` all of its tables.

    Raises NotASweep, DamagedLedger and DamagedCurves.
    """
    result = read_summary(folder)
    write_report(folder, result)
    say_what_came_out(result, console, full=full)


def say_what_came_out(result: Summary, console: Console, *, full: bool = False) -> None:
    """Print it on one screen, or with `full` all of its tables, and where its files are."""
    console.print(render_terminal(result, full=full))
    ends = ["", *(f"no maps: {line}" for line in undrawn_maps(result)), f"Report: {result.folder / REPORT_HTML}"]
    ends += [f"Table: {result.folder / REPORT_CSV}"] if full else []
    ends += [] if full else [f"All tables: {command('report', result.folder)} --full"]
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
    drawn, drawing = begin_to_draw(result, in_detail(result), forks=cores() - 1)
    drawing.finish()
    write_whole(html, [page(result, drawn).encode()])
    for name, lines in csv_tables(result).items():
        write_csv(folder / name, lines, ["config_id"])
    return html, table


def begin_to_draw(result: Summary, rows: Sequence[Row], *, forks: int) -> tuple[Drawn, SideBySide]:
    """Begin to draw what is not drawn yet: the figures of the sweep, and those of these configurations."""
    with put_off() as waiting:
        drawn = draw_all(result, result.folder / "figures")
        for row in rows:
            configuration_figure(result, row, figure_of(result, row))
    return drawn, SideBySide(waiting, forks)


def csv_tables(result: Summary) -> dict[str, Lines]:
    """The CSV files of a report, by name; apart from report.csv those that have something to say."""
    found = {
        EFFECTS_CSV: effect_lines(result) if shows_effects(result) else [],
        SEED_COMPARISONS_CSV: seed_comparison_lines(compare_seeds(result)),
        AVERAGES_CSV: average_lines(result),
        CONFIRMED_CSV: confirmed_lines(read_confirmations(result)),
        FAMILIES_CSV: family_lines(result),
        EVALUATIONS_CSV: last_and_best_lines(result),
        VALIDATION_CSV: validation_lines(result),
        STEPS_CSV: steps_lines(result),
    }
    return {REPORT_CSV: configuration_lines(result)} | {name: lines for name, lines in found.items() if lines}
