"""The page of a sweep: one HTML file that needs nothing else, without scripts, its figures inside."""

import base64
import html
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from orchestrator.figures.curves import Drawn
from orchestrator.figures.heat_maps import explain_missing_maps
from orchestrator.redaction import remove_controls
from orchestrator.report.sections import make_sections
from orchestrator.report.tables.columns import Cells, Section
from orchestrator.report.tables.effects import TITLE as EFFECTS
from orchestrator.report.tables.evaluations import TITLE as EVALUATIONS
from orchestrator.report.tables.later_evaluations import TITLE as LATER
from orchestrator.report.tables.provenance import environment_section, provenance_section
from orchestrator.report.tables.sentences import headlines
from orchestrator.results.summary import Row, Summary
from orchestrator.wording import command

Figures = Iterable[tuple[Path, str]]  # image files with their alt texts

PAIRS = (
    "Each point is one configuration at one length, median over seeds: the measured value on the vertical axis, the "
    "prediction of the task's theory on the horizontal one; on the dashed line both are equal."
)
DETAILED = 3  # configurations with a figure of their own
_INTERVAL = re.compile(r"\[[^\[\]]{,40}\]")


def render_page(result: Summary, drawn: Drawn, own: Sequence[Path]) -> str:
    """Return the HTML page with its figures inside, without scripts and links; `own` are those of configurations."""
    state, *lines = headlines(result)
    parts = [f"<h1>{escape(result.name)}</h1>", f"<p class=state>{escape(state)}</p>", *_paragraphs(lines)]
    if drawn.comparison:
        parts.append(_image(drawn.comparison, "median curves of the configurations"))
    shown = {
        EFFECTS: [(path, f"outcome against {key}") for key, path in drawn.scores.items()],
        LATER: [(path, "kept weights evaluated later, against length") for path in drawn.later],
        EVALUATIONS: [(path, "judged metric against training step") for path in (drawn.last_and_best,) if path],
    }
    for section in make_sections(result):
        parts += _section(section, shown.get(section.heading, ()))
    missing = explain_missing_maps(result)
    for heading, paths, sentences in (
        ("Measured against predicted", drawn.pairs, [PAIRS] if drawn.pairs else ()),
        ("Steps until it was reached", drawn.steps, ()),
        ("Families of metrics", drawn.families, ()),
        ("Maps of the weights", drawn.maps, missing),
        ("The first configurations in detail", own, ()),
    ):
        if paths or sentences:
            section = Section(heading=heading, cells={}, paragraphs=sentences)
            parts += _section(section, [(path, path.stem) for path in paths])
    parts += _section(provenance_section(result))
    if environments := environment_section(result):
        parts += _section(environments, tag="h3")
    parts += _commands(result)
    title = escape(f"lengthwise: {result.name}")
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def detailed_rows(result: Summary) -> list[Row]:
    """Return the configurations that have a figure of their own on the page."""
    return [row for row in result.rows if row.rank and row.complete][:DETAILED]


def figure_path(result: Summary, row: Row) -> Path:
    """Return the file with the figure of one configuration."""
    return result.folder / "figures" / f"configuration-{row.config_id}.png"


def _commands(result: Summary) -> list[str]:
    # Code of the user's own is searched beside the sweep file that was run, which is not recorded.
    again = {"the same sweep again": f"{command('run', result.folder / 'sweep.yaml')} --name another-name"}
    commands = {
        **({} if result.code else again),
        "these tables again": command("report", result.folder),
        "to MLflow": command("publish", result.folder),
    }
    width = max(map(len, commands.values()))
    lines = "\n".join(f"{typed:{width}}   # {what}" for what, typed in commands.items())
    return [
        f"<h2>Commands</h2><pre>{escape(lines)}\n</pre>",
        *_paragraphs(["Every curve of every seed is in curves.parquet, with the searched values."], "note"),
    ]


def _section(section: Section, figures: Figures = (), tag: str = "h2") -> list[str]:
    return [
        f"<{tag}>{escape(section.heading)}</{tag}>",
        *_paragraphs(section.paragraphs),
        *_paragraphs(section.notes, "note"),
        *([_table(section.cells)] if section.cells else []),
        *(_image(path, alt) for path, alt in figures),
    ]


def _paragraphs(sentences: Iterable[str], kind: str = "") -> list[str]:
    return [f"<p{f' class={kind}' if kind else ''}>{escape(sentence)}</p>" for sentence in sentences]


def escape(text: str) -> str:
    """Return text as HTML shows it, in attributes as well, without control characters."""
    return html.escape(remove_controls(text))


def _image(path: Path, alt: str) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<img alt="{escape(alt)}" src="data:image/png;base64,{data}">'


def _table(cells: Cells) -> str:
    def line(tag: str, texts: Iterable[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{_cell(text)}</{tag}>" for text in texts) + "</tr>"

    body = "".join(line("td", texts) for texts in zip(*cells.values(), strict=True))
    return f"<div class=wide><table>{line('th', cells)}{body}</table></div>"


def _cell(text: str) -> str:
    """Return a cell in which an interval is not broken into lines."""
    return _INTERVAL.sub(r"<span>\g<0></span>", escape(text))


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1b1f23; max-width: 1180px; margin: 2em auto; padding: 0 1em; }
h1 { margin-bottom: 0; } h2 { margin-top: 2em; border-bottom: 1px solid #ddd; }
p { margin: .35em 0; } .state { font-weight: 600; } .note { color: #57606a; font-size: 13px; }
.wide { overflow-x: auto; } table { border-collapse: collapse; font-size: 13px; font-variant-numeric: tabular-nums; }
td span { white-space: nowrap; }
th, td { padding: .25em .5em; border-bottom: 1px solid #e4e7ea; text-align: left; max-width: 28em; }
th { background: #f5f6f8; vertical-align: bottom; }
img { max-width: 100%; height: auto; margin: .5em 0; }
pre { background: #f5f6f8; padding: .8em; overflow-x: auto; }
"""
