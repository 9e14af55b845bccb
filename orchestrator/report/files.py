"""The results of a sweep for people: tables for the terminal, a CSV, and one HTML page that needs nothing else."""

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from orchestrator.consoles import WIDTH_OF_FILES
from orchestrator.figures.curves import configuration_figure, draw_all
from orchestrator.figures.families import family_lines
from orchestrator.figures.maps import damaged_maps
from orchestrator.record.state import SweepState
from orchestrator.report.csv_tables import (
    Lines,
    average_lines,
    configuration_lines,
    confirmed_lines,
    effect_lines,
    last_and_best_lines,
    write_csv,
)
from orchestrator.report.effect_tables import comparison_columns, comparison_note, effect_columns, effect_notes
from orchestrator.report.last_and_best_tables import TITLE, last_and_best_columns, last_and_best_notes
from orchestrator.report.tables import (
    Columns,
    confirmed_columns,
    headlines,
    place_columns,
    result_columns,
    table_title,
    value_columns,
)
from orchestrator.results.confirmed import read_confirmed
from orchestrator.results.summary import Summary, summary
from trainers.files.atomic_file import write_whole

__all__ = ["Summary", "read_summary", "render_terminal", "summary", "write_report"]

REPORT_HTML, REPORT_CSV = "report.html", "report.csv"
EFFECTS_CSV, AVERAGES_CSV, CONFIRMED_CSV = "effects.csv", "averages.csv", "confirmed.csv"
FAMILIES_CSV, EVALUATIONS_CSV = "families.csv", "evaluations.csv"
ROWS_IN_TERMINAL, FIRST_COMPARED = 20, 5
WIDE = 140
LEFT = {"configuration", "hyperparameter", "at lengths", "median by value", "average", "against", "form"}
LEFT |= {"searched values"}
WHOLE = {"configuration", "at lengths"}  # never folded
ONLY_WHERE_WIDE = {"against", "members", "quartiles"}  # of the averages, which are in averages.csv and the page too
FIGURES_OF_THE_FIRST = 3
INTERVAL = re.compile(r"(?:\S+ )?\[[^\]]*\]|p = \S+")


def read_summary(folder: Path) -> Summary:
    """The summary of the sweep in `folder`; raises what reading its ledger and curves raises."""
    return summary(SweepState.load(Path(folder)))


def render_terminal(result: Summary, rows: int = ROWS_IN_TERMINAL) -> RenderableType:
    """Tables and sentences for a terminal: the first `rows` configurations, how they were selected, what confirms them,
    effects and averages."""
    return _TerminalReport(result, rows)


class _TerminalReport:
    """Lays the tables out for the width it is given: below WIDE the searched values get a table of their own."""

    def __init__(self, result: Summary, rows: int) -> None:
        self.result, self.rows = result, rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        result, shown = self.result, self.result.rows[: self.rows]
        yield from (_prose(line, console, result) for line in headlines(result))
        yield ""
        place, values, results = (
            place_columns(shown),
            value_columns(result, shown),
            result_columns(result, shown, "\n"),
        )
        title = table_title(result)
        wide = options.max_width >= WIDE
        if wide:
            yield _rich_table(title, {**place, **values, **results})
        else:
            if result.objective.reduce == "mean":
                results.pop("score")  # the same number as the median at the selection lengths
            yield _rich_table(title, {"#": place["#"], **results})
            if values:
                yield ""
                yield _rich_table("Searched values", {**place, **values})
        if len(result.rows) > self.rows:
            yield Text(f"... and {len(result.rows) - self.rows} more in {REPORT_CSV}", style="dim")
        for one in read_confirmed(result):
            yield ""
            yield _rich_table("Search score and confirmed score", confirmed_columns(one, "\n"))
            yield _prose(f"{one.sentence}.", console, result)
        if result.shows_effects:
            yield ""
            yield from self._effects(console, wide)
        elif result.no_effects:
            yield ""
            yield _prose(result.no_effects, console, result)
        if result.comparisons:
            yield ""
            columns = comparison_columns(result, " " if wide else "\n")
            kept = columns if wide else {name: columns[name] for name in columns if name not in ONLY_WHERE_WIDE}
            yield _rich_table("Weight averages of the same trained members", kept, wide)
            yield _prose(comparison_note(result), console, result, "dim")
        if result.last_and_best:
            yield ""
            first = result.last_and_best[: min(self.rows, FIRST_COMPARED)]
            columns = last_and_best_columns(result, first)
            columns = columns if wide else {name: columns[name] for name in columns if name != "configuration"}
            yield _rich_table(TITLE, columns, wide)
            if (left := len(result.last_and_best) - len(first)) > 0:
                yield Text(f"... and {left} more in {EVALUATIONS_CSV}", style="dim")
            yield from (_prose(note, console, result, "dim") for note in last_and_best_notes(result))
        drawn = sorted(
            path
            for kind in ("evaluations", "comparison", "score-", "pair-", "family-", "maps-")
            for path in result.folder.glob(f"figures/{kind}*.png")
        )
        if drawn:
            yield ""
            yield Text("Figures")
            yield from (Text(f"  {path}", no_wrap=True, overflow="ignore") for path in drawn)

    def _effects(self, console: Console, wide: bool) -> Iterator[RenderableType]:
        """The effects in one table; below WIDE the medians get a table of their own."""
        columns = effect_columns(self.result, wide, " " if wide else "\n", "\n")
        medians = {} if wide else {name: columns.pop(name) for name in ("median by value",) if name in columns}
        yield _rich_table("Effect of each hyperparameter (over configurations)", columns)
        if medians:
            yield ""
            yield _rich_table("", {name: columns[name] for name in ("hyperparameter", "at lengths")} | medians)
        yield from (_prose(note, console, self.result, "dim") for note in effect_notes(self.result))


def _prose(text: str, console: Console, result: Summary, style: str = "") -> Text:
    """A sentence: one line in files, between words on a terminal, and whole wherever it names the sweep's folder."""
    whole = not console.is_terminal or str(result.folder) in text
    return Text(text, style=style, no_wrap=whole, overflow="ignore" if whole else "fold")


def write_report(folder: Path, result: Summary | None = None) -> tuple[Path, Path]:
    """Draw the figures of the sweep in `folder` and write report.html and the CSV tables; returns the first two.

    Works on an unfinished sweep and says that it is. `result` spares reading the sweep again.
    """
    folder = Path(folder)
    result = result or read_summary(folder)
    page, table = folder / REPORT_HTML, folder / REPORT_CSV
    write_whole(page, [_page(result).encode()])
    for name, lines in csv_tables(result).items():
        write_csv(folder / name, lines, ["config_id"])
    return page, table


def csv_tables(result: Summary) -> dict[str, Lines]:
    """The CSV files of a report, by name; apart from report.csv those that have something to say."""
    found = {
        EFFECTS_CSV: effect_lines(result) if result.shows_effects else [],
        AVERAGES_CSV: average_lines(result),
        CONFIRMED_CSV: confirmed_lines(read_confirmed(result)),
        FAMILIES_CSV: family_lines(result),
        EVALUATIONS_CSV: last_and_best_lines(result),
    }
    return {REPORT_CSV: configuration_lines(result)} | {name: lines for name, lines in found.items() if lines}


def _rich_table(title: str, columns: Columns, wide: bool = True) -> Table:
    """Below WIDE, headings longer than their cells have a word on each line."""
    look: dict[str, Any] = {"title_justify": "left", "title_style": "bold", "header_style": "bold"}
    table = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1), **look)
    for name, cells in columns.items():
        folds = name in LEFT - WHOLE or "[95 %]" in name
        unbroken = max((len(part) for cell in cells for part in _unbroken(name, cell)), default=0)
        heading = name if wide or folds or len(name) <= unbroken else name.replace(" ", "\n")
        heading = heading if wide else heading.replace(" [95 %]", "\n[95 %]")
        unbroken = unbroken if folds else max(unbroken, *map(len, heading.split("\n")))
        style: dict[str, Any] = {"justify": "left" if name in LEFT else "right", "overflow": "fold"}
        table.add_column(Text(heading), min_width=unbroken, no_wrap=not folds, **style)
    for line in zip(*columns.values(), strict=True):
        table.add_row(*(Text(cell) for cell in line))
    return table


def _unbroken(name: str, cell: str) -> list[str]:
    """The parts of a cell that stay on one line: values with their n, intervals, file names and the like."""
    if name == "median by value":
        return cell.split("\n")
    if "[95 %]" in name:
        return INTERVAL.findall(cell)
    return [] if name in LEFT - WHOLE else cell.split("\n")


def _page(result: Summary) -> str:
    """The HTML page: no scripts, no links to other files, figures inside."""
    drawn = draw_all(result, result.folder / "figures")
    first = [row for row in result.rows if row.rank and row.complete][:FIGURES_OF_THE_FIRST]
    own = [
        configuration_figure(result, r, result.folder / "figures" / f"configuration-{r.config_id}.png") for r in first
    ]
    summary_lines = "".join(f"<p>{html.escape(line)}</p>" for line in headlines(result)[1:])
    sections = [
        f"<h1>{html.escape(result.name)}</h1>",
        f"<p class=state>{html.escape(headlines(result)[0])}</p>",
        summary_lines,
    ]
    if drawn.comparison:
        sections.append(_image(drawn.comparison, "median curves of the configurations"))
    table = {
        **place_columns(result.rows),
        **value_columns(result, result.rows),
        **result_columns(result, result.rows, "\n"),
    }
    sections += [
        "<h2>Configurations by score</h2>",
        f"<p class=note>{html.escape(table_title(result))}</p>",
        _html_table(table),
    ]
    for one in read_confirmed(result):
        sections += [
            "<h2>Search score and confirmed score</h2>",
            f"<p>{html.escape(one.sentence)}.</p>",
            _html_table(confirmed_columns(one, "\n")),
        ]
    if result.shows_effects:
        scores = "".join(_image(path, f"outcome against {key}") for key, path in drawn.scores.items())
        sections += [
            "<h2>Effect of each hyperparameter</h2>",
            *(f"<p class=note>{html.escape(note)}</p>" for note in effect_notes(result)),
            _html_table(effect_columns(result)),
            f"<div>{scores}</div>",
        ]
    elif result.no_effects:
        sections += ["<h2>Effect of each hyperparameter</h2>", f"<p>{html.escape(result.no_effects)}</p>"]
    if result.comparisons:
        sections += [
            "<h2>Weight averages of the same trained members</h2>",
            f"<p class=note>{html.escape(comparison_note(result))}</p>",
            _html_table(comparison_columns(result)),
        ]
    if result.last_and_best:
        sections += [
            f"<h2>{TITLE}</h2>",
            *(f"<p class=note>{html.escape(note)}</p>" for note in last_and_best_notes(result)),
            _html_table(last_and_best_columns(result, result.last_and_best, "\n")),
            *([_image(drawn.last_and_best, "judged metric against training step")] if drawn.last_and_best else []),
        ]
    if drawn.pairs:
        sections += ["<h2>Measured against predicted</h2>", *(_image(path, path.stem) for path in drawn.pairs)]
    if drawn.families:
        sections += ["<h2>Families of metrics</h2>", *(_image(path, path.stem) for path in drawn.families)]
    damaged = damaged_maps(result)
    if drawn.maps or damaged:
        sections += ["<h2>Maps of the weights</h2>", *(f"<p>{html.escape(line)}</p>" for line in damaged)]
        sections += [_image(path, path.stem) for path in drawn.maps]
    if own:
        sections += ["<h2>The first configurations in detail</h2>", *(_image(path, path.stem) for path in own)]
    sections += ["<h2>Provenance</h2>", _html_table(_provenance(result))]
    folder = html.escape(str(result.folder))
    sections += [
        "<h2>Commands</h2><pre>"
        f"lengthwise run {folder}/sweep.yaml --name another-name   # the same sweep again\n"
        f"lengthwise report {folder}                               # these tables again\n"
        f"lengthwise publish {folder}                              # to MLflow\n"
        "</pre><p class=note>Every curve of every seed is in curves.parquet (columns config_id, seed, average, metric, "
        "length, step, value).</p>"
    ]
    title = html.escape(f"lengthwise: {result.name}")
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body>\n" + "\n".join(sections) + "\n</body></html>\n"
    )


def _provenance(result: Summary) -> Columns:
    facts = dict(result.provenance)
    versions = facts.pop("versions", {})
    texts = {
        key.replace("_", " "): value if isinstance(value, str) else json.dumps(value) for key, value in facts.items()
    }
    texts["versions"] = ", ".join(f"{name} {version}" for name, version in versions.items())
    return {"what": list(texts), "value": list(texts.values())}


def _image(path: Path, alt: str) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<img alt="{html.escape(alt, quote=True)}" src="data:image/png;base64,{data}">'


def _html_table(columns: Columns) -> str:
    def cells(tag: str, line: Iterable[str]) -> str:
        return (
            "<tr>" + "".join(f"<{tag}>{html.escape(cell).replace(chr(10), '<br>')}</{tag}>" for cell in line) + "</tr>"
        )

    body = "".join(cells("td", line) for line in zip(*columns.values(), strict=True))
    return f"<div class=wide><table>{cells('th', columns)}{body}</table></div>"


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1b1f23; max-width: 1180px; margin: 2em auto; padding: 0 1em; }
h1 { margin-bottom: 0; } h2 { margin-top: 2em; border-bottom: 1px solid #ddd; }
p { margin: .35em 0; } .state { font-weight: 600; } .note { color: #57606a; font-size: 13px; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
th, td { padding: .25em .7em; border-bottom: 1px solid #e4e7ea; text-align: left; white-space: nowrap; }
th { background: #f5f6f8; vertical-align: bottom; white-space: normal; }
img { max-width: 100%; height: auto; margin: .5em 0; }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(480px, 1fr)); gap: .5em; }
pre { background: #f5f6f8; padding: .8em; overflow-x: auto; }
"""


def print_report(result: Summary, console: Console | None = None) -> None:
    """Print the tables; without a terminal WIDE or wider, so that logs keep their lines whole."""
    console = console or Console()
    if not console.is_terminal:
        console = Console(file=console.file, width=WIDTH_OF_FILES, color_system=None)
    console.print(render_terminal(result), crop=False)
