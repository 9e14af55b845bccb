"""Render the page of a sweep: a self-contained HTML file, whose figures and tables a script draws in the browser."""

import base64
import hashlib
import html
import json
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from string import Template
from typing import Any

import pandas as pd

from orchestrator.interface.trainer import MEMBERS_FOLDER
from orchestrator.record.state.labels import make_label
from orchestrator.report.failure_sentences import advise_on_failures
from orchestrator.report.judging_notes import describe_columns, list_judging_notes
from orchestrator.report.lead_sentences import make_confirm_command, make_extend_command
from orchestrator.report.page.data import make_page_data
from orchestrator.report.sentences import make_answers, make_short_answer
from orchestrator.report.tables.columns import Cells, Section, are_numbers, make_cells
from orchestrator.report.tables.configuration_tables import OTHERS, make_confirmation_section, make_result_columns
from orchestrator.report.tables.effect_table import list_effect_notes
from orchestrator.report.tables.later_evaluation_table import make_later_section
from orchestrator.report.tables.provenance_section import make_provenance_section
from orchestrator.report.tables.race_tables import make_race_sections
from orchestrator.results.analysis import shows_effects
from orchestrator.results.read_confirmations import read_confirmations
from orchestrator.results.seed_failures import make_retry_command, name_seeds
from orchestrator.results.summary import ConfigurationResult, Summary
from orchestrator.running.watching.status import list_traces
from orchestrator.text.redaction import remove_controls
from orchestrator.text.tracebacks import fold_frames
from orchestrator.text.wording import (
    format_command,
    format_values,
    group_errors,
)

MAX_FAILURES = 20  # listed reasons
MAX_NAMED = 12  # configurations named for each reason
MAX_GRID = 40  # configurations whose seeds are shown in a grid
SEED_LETTERS = {"crashed": "C", "diverged": "D", "complete": "\u00b7"}  # in the grid; its colors are in page.css
MAX_TRACE = 12_000  # characters of tracebacks
MAX_OPEN_TRACES = 2  # more different tracebacks are folded
SCRIPT_FILES = (
    "numbers",
    "elements",
    "data",
    "state",
    "words",
    "drawing",
    "filters",
    "curves",
    "focus",
    "legend",
    "table",
    "seed_comparisons",
    "differences",
    "comparison",
    "points",
    "parallel",
    "effects",
    "start",
)  # the page has one script: these, in order
_FAILED_COUNT = re.compile(r"\d[\d,]* failed")  # in the first sentence; a link leads from it to the reasons
_BEGINNING = re.compile(r"^[^:.;(]{,60}:")  # of a sentence such as "Best at the selection lengths 6-7: #8"
_COMMAND = re.compile(r"lengthwise [a-z]+ [^\s;,]*[^\s;,.](?: --[a-z][a-z-]*(?: \d+)?)*")  # in a sentence
_OPTION = re.compile(r"--[a-z][a-z-]*")
_WITHOUT_BRACKETS = re.compile(rf" \[.*|^.*\(({OTHERS} .*)\)$")  # of a cell of the table of configurations
_UNBROKEN = re.compile(  # intervals, ranges, percentages and options; also in script/elements.js
    r"\[[^\[\]]{,40}\]|(?<![\w.&/-])\d[\d.]*(?:-\d[\d.]*(?![\w/-])| %)|(?<![\w-])--[a-z][a-z-]*"
)


def render_page(summary: Summary, curves: pd.DataFrame) -> str:
    """Return the page as HTML; `curves` has all members, also of unfinished configurations.

    Names given by users are escaped here or shown as text by the script. Only scripts of this package run.
    """
    # Let the browser run only these scripts and styles, by their hashes.
    style, library = _read_file("page.css"), _read_file("d3.min.js")
    script = "\n".join(_read_file(f"script/{name}.js") for name in SCRIPT_FILES)
    script = f'"use strict";\n(() => {{\n{script}}})();\n'
    hashes = {name: _hash_source(text) for name, text in (("style", style), ("library", library), ("script", script))}
    policy = (
        f"default-src 'none'; style-src {hashes['style']}; script-src {hashes['library']} {hashes['script']}; "
        "base-uri 'none'; form-action 'none'"
    )

    # Text is in the HTML, so a reader without scripts has it; the script draws the rest from `data`.
    data = json.dumps(_remove_all_controls(make_page_data(summary, curves)), allow_nan=False, separators=(",", ":"))
    return Template(_read_file("page.html")).substitute(
        policy=policy,
        title=escape(f"lengthwise: {summary.name}"),
        name=escape(summary.name),
        meta=_render_source(summary),
        columns=_render_columns_note(summary),
        answers=_render_answers(summary),
        sections="\n".join(_render_sections(summary)),
        data=data.replace("<", "\\u003c"),  # so that no text can end the script element
        style=style,
        library=library,
        script=script,
    )


def escape(text: str) -> str:
    """Return text escaped for HTML, also in attributes, without control characters."""
    return html.escape(remove_controls(text))


def _read_file(name: str) -> str:
    """Return the text of a file of this package."""
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash_source(text: str) -> str:
    """Return the hash of a script or style as a source of a content security policy."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _remove_all_controls(value: Any) -> Any:
    """Return a JSON value without control characters in its texts."""
    if isinstance(value, str):
        return remove_controls(value)
    if isinstance(value, dict):
        return {remove_controls(key): _remove_all_controls(item) for key, item in value.items()}
    return [*map(_remove_all_controls, value)] if isinstance(value, list | tuple) else value


def _render_source(summary: Summary) -> str:
    """Return description, study and folder of a sweep as HTML, with the time if it is running."""
    live = (
        f"; as of {time.strftime('%Y-%m-%d %H:%M:%S')}, refreshes automatically" if summary.status == "running" else ""
    )
    description = str(summary.state.spec.get("description") or "").strip().rstrip(".")
    study = f"study {summary.state.study}, in {summary.folder}"
    if not description:
        return escape(study + live)
    return f"{escape(description)} <span class=where>({escape(study)})</span>{escape(live)}"


def _render_columns_note(summary: Summary) -> str:
    """Return the legend of the table of configurations as HTML, with another one for a phone (page.css)."""
    if not summary.rows:
        return ""

    # A phone shows the values without what follows in brackets, and of "-inf (others 0.8)" only the others, so its
    # legend does not explain the rest. A score that is a column already is not shown.
    columns = [c for c in make_result_columns(summary) if c.heading != "score" or not summary.is_score_selection_median]
    cells = make_cells(summary.rows, columns, summary.infinity_text)
    values = {name: [_WITHOUT_BRACKETS.sub(r"\1", text) for text in texts] for name, texts in cells.items()}
    legend, phone_legend = (escape(describe_columns(summary, shown)) for shown in (cells, values))
    return f"<span class=brackets>{legend}</span><span class=bare>{phone_legend}</span>"


def _render_sections(summary: Summary) -> Iterator[str]:
    """Yield the HTML of the sections on failures and confirmations, then of folded sections."""
    # Failures and confirmations may change what a reader concludes, so they are not folded.
    yield from _render_failures(summary)
    for confirmation in read_confirmations(summary):
        yield _render_section(make_confirmation_section(summary, confirmation))

    notes = list_judging_notes(summary)
    folded = [Section(heading="How this was judged, and notes", cells={}, paragraphs=notes)] if notes else []
    if shows_effects(summary) and summary.status != "running":
        folded.append(
            Section(heading="About the effects of hyperparameters", cells={}, paragraphs=list_effect_notes(summary))
        )
    folded += make_race_sections(summary)
    folded += [make_later_section(summary)] if summary.later_evaluations else []
    folded.append(make_provenance_section(summary))
    for section in folded:
        body = _render_section(section, with_heading=False)
        yield f"<details><summary>{escape(section.heading)}</summary>{body}</details>"
    yield f"<details class=screen><summary>Commands</summary>{_render_commands(summary)}</details>"


def _render_failures(summary: Summary) -> Iterator[str]:
    """Yield the HTML on failed seeds and packs, with a line for similar reasons; nothing without failures."""
    # Many seeds fail for similar reasons, so each reason has a line with an example.
    groups = group_errors((why, (row, seed)) for row in summary.rows for seed, why in row.failures)
    if not groups and not summary.state.failed_packs:
        return
    lines = [
        {
            "seeds": str(len(failed)),
            "which": name_seeds(
                [(make_label(summary.state.provenance, row.number), seed) for row, seed in failed], MAX_NAMED
            ),
            "why, for example": (f"{label} ({values}), seed {seed}: {why}" if values else why)
            + _name_log(summary, row, seed),
        }
        for why, unordered in groups.items()
        for failed in [sorted(unordered, key=lambda pair: (pair[0].number, pair[1]))]
        for row, seed in failed[:1]
        for values in [format_values(row.values, summary.searched)]
        for label in [make_label(summary.state.provenance, row.number)]
    ]

    # A page with hundreds of reasons would hide everything else.
    cells = {name: [line[name] for line in lines[:MAX_FAILURES]] for name in (lines[0] if lines else ())}
    note = [f"{len(lines) - MAX_FAILURES} more reasons are in the ledger."] if len(lines) > MAX_FAILURES else []

    # A crash, unlike divergence, has a traceback.
    section = Section(heading="What failed", cells=cells, paragraphs=advise_on_failures(summary), notes=note)
    traces_html = ""
    if make_retry_command(summary.state) and (traces := list_traces(summary.state)):
        state = " open" if len(traces) <= MAX_OPEN_TRACES else ""
        traces_html = f"<details{state}><summary>Tracebacks</summary>{_render_traces(summary, traces)}</details>"
    grid_html = _render_seed_grid(summary) if groups and len(summary.rows) <= MAX_GRID else ""
    yield f"<section id=what-failed>{_render_section(section)}{grid_html}{traces_html}</section>"


def _render_seed_grid(summary: Summary) -> str:
    """Return a table of configurations by rank and seeds as HTML: a letter and a color say how each seed ended."""
    seeds = sorted({seed for row in summary.rows for seed in row.seeds})
    shown, lines = set[str](), []
    for row in summary.rows:
        members, reasons = summary.state.configurations[row.config_id].members, dict(row.failures)
        label = make_label(summary.state.provenance, row.number)
        line = [f"<th scope=row>{escape(f'{label} {format_values(row.values, summary.searched)}')}</th>"]
        for seed in seeds:
            member = members.get(seed)
            kind: str = member.status if member else ""
            if member and kind == "failed":
                kind = "crashed" if member.has_crashed else "diverged"
            shown.add(kind)
            why = reasons.get(seed, kind)
            title = escape(f"{label} seed {seed}: {why if why.startswith(kind) else f'{kind}: {why}'}")
            letter = SEED_LETTERS.get(kind, "")
            line.append(f'<td class="{kind}" title="{title}">{letter}</td>' if letter else "<td></td>")
        lines.append(f"<tr>{''.join(line)}</tr>")

    # The legend explains only what the table has.
    legend = [f"{letter} {kind}" for kind, letter in SEED_LETTERS.items() if kind in shown]
    legend += ["empty: not ended"] if shown - SEED_LETTERS.keys() else []
    caption = f"<caption>Every seed, by rank of its configuration: {', '.join(legend)}</caption>"
    head = "".join(f"<th scope=col>{seed}</th>" for seed in seeds)
    head = f"<thead><tr><th>configuration, seed</th>{head}</tr></thead>"
    return f"<div class=scroll><table class=seeds>{caption}{head}<tbody>{''.join(lines)}</tbody></table></div>"


def _render_traces(summary: Summary, traces: Sequence[str]) -> str:
    """Return tracebacks as HTML with the frames of installed packages folded, then with all frames if some were."""
    full = f"{format_command('status', summary.folder)} --trace"

    def render(lines_by_trace: Iterable[list[str]]) -> str:
        text = "\n\n".join(map("\n".join, lines_by_trace))
        shown = text if len(text) <= MAX_TRACE else f"{text[:MAX_TRACE]}\n... all of it: {full}"
        return f"<pre>{escape(shown)}</pre>"

    whole = [trace.splitlines() for trace in traces]
    if (folded := [fold_frames(lines) for lines in whole]) == whole:
        return render(whole)
    return f"{render(folded)}<details class=screen><summary>With all frames</summary>{render(whole)}</details>"


def _name_log(summary: Summary, row: ConfigurationResult, seed: int) -> str:
    """Return where the output of a member of a program is, as text; empty for a model of the engine."""
    folder = summary.folder / MEMBERS_FOLDER / f"{row.config_id}-{seed}"
    return f" (its output: {folder})" if folder.is_dir() else ""


def _render_commands(summary: Summary) -> str:
    """Return the HTML of the commands for this sweep, each with its purpose."""
    # User code is searched beside the original sweep file, whose path is not recorded.
    again = {"the same sweep again": f"{format_command('run', summary.folder / 'sweep.yaml')} --name another-name"}
    labels = [make_label(summary.state.provenance, row.number).removeprefix("#") for row in summary.rows]
    commands = {
        **({} if summary.state.modules else again),
        "this page again": f"{format_command('report', summary.folder)} --open",
    }
    if len(labels) > 1:
        commands["two configurations"] = f"{format_command('compare', summary.folder)} {labels[0]} {labels[1]}"
    if more_seeds := make_extend_command(summary):
        commands["more seeds"] = more_seeds
    if confirm := make_confirm_command(summary):
        commands["the first again, on fresh seeds"] = confirm
    if retry := make_retry_command(summary.state):
        commands["crashed seeds again, when the cause is fixed"] = retry
    commands |= {
        "figures for a paper": f"{format_command('export', summary.folder)} --figures pdf",
        "to MLflow": format_command("publish", summary.folder),
    }

    # The purpose of each command stands behind it, as a comment that a shell ignores.
    width = max(map(len, commands.values()))
    lines = "\n".join(f"{command_line:{width}}   # {purpose}" for purpose, command_line in commands.items())
    note = "Every curve of every seed is in curves.parquet, with the searched values; tables are in the CSV files."
    return f"<pre>{escape(lines)}\n</pre>" + "".join(_render_paragraphs([note], "note"))


def _render_section(section: Section, *, with_heading: bool = True) -> str:
    """Return a section as HTML."""
    return "".join(
        [
            f"<h2>{escape(section.heading)}</h2>" if with_heading else "",
            *_render_paragraphs(section.paragraphs),
            _render_table(section.cells) if section.cells else "",
            *_render_paragraphs(section.notes, "note"),
        ]
    )


def _render_answers(summary: Summary) -> str:
    """Return the answers as HTML paragraphs with bold beginnings; the count of failed seeds links to their reasons.

    A phone shows the status and a short answer above the curves, the other answers below them (page.css).
    """
    sentences = [_BEGINNING.sub(r"<b>\g<0></b>", escape(sentence)) for sentence in make_answers(summary)]
    status, *others = (f"<p>{_keep_together(sentence)}</p>" for sentence in sentences)
    status = _FAILED_COUNT.sub(r"<a href=#what-failed>\g<0></a>", status, count=1)
    short = "".join(_render_paragraphs(filter(None, [make_short_answer(summary)]), "short"))
    others_html = f"<section class='answers rest'>{''.join(others)}</section>" if others else ""
    return f"<section class='answers first'>{status}{short}</section>{others_html}"


def _render_paragraphs(sentences: Iterable[str], css_class: str = "") -> list[str]:
    """Return each sentence as an HTML paragraph of this class."""
    return [
        f"<p{f' class={css_class}' if css_class else ''}>{_keep_together(escape(sentence))}</p>"
        for sentence in sentences
    ]


def _render_table(cells: Cells) -> str:
    """Return a table as HTML."""
    classes = [" class=right" if are_numbers(texts) else "" for texts in cells.values()]

    def render_line(tag: str, texts: Iterable[str]) -> str:
        line = (
            f"<{tag}{css_class}>{_keep_together(escape(text))}</{tag}>"
            for text, css_class in zip(texts, classes, strict=True)
        )
        return f"<tr>{''.join(line)}</tr>"

    body = "".join(render_line("td", texts) for texts in zip(*cells.values(), strict=True))
    head = f"<thead>{render_line('th', cells)}</thead>"  # which paper repeats on every sheet
    return f"<div class=wide><table>{head}<tbody>{body}</tbody></table></div>"


def _keep_together(text: str) -> str:
    """Return HTML in which commands are code, and neither options nor intervals, ranges or percentages are broken."""
    marked, end, keep = "", 0, r"<span class=keep>\g<0></span>"
    for command in _COMMAND.finditer(text):
        marked += _UNBROKEN.sub(keep, text[end : command.start()]) + f"<code>{_OPTION.sub(keep, command[0])}</code>"
        end = command.end()
    return marked + _UNBROKEN.sub(keep, text[end:])
