"""The page of a sweep: one HTML file that needs nothing else, without scripts, its figures inside."""

import base64
import html
from collections.abc import Iterable, Sequence
from pathlib import Path

from orchestrator.figures.curves import Drawn
from orchestrator.figures.maps import undrawn_maps
from orchestrator.report.sections import EFFECTS, Layout, Section, sections
from orchestrator.report.tables.last_and_best_tables import TITLE as EVALUATIONS
from orchestrator.report.tables.provenance_tables import provenance_columns, ran_under_columns, ran_under_notes
from orchestrator.report.tables.tables import Columns, headlines
from orchestrator.results.summary import Row, Summary
from orchestrator.wording import command

Figures = Iterable[tuple[Path, str]]  # files, and what stands in their place where no figures are shown

FIGURES_OF_THE_FIRST = 3


def page(result: Summary, drawn: Drawn, own: Sequence[Path]) -> str:
    """Return the HTML page: no scripts, no links, the figures inside, `own` of single configurations last."""
    state, *lines = headlines(result)
    parts = [f"<h1>{html.escape(result.name)}</h1>", f"<p class=state>{html.escape(state)}</p>", *_paragraphs(lines)]
    if drawn.comparison:
        parts.append(_image(drawn.comparison, "median curves of the configurations"))
    shown = {
        EFFECTS: [(path, f"outcome against {key}") for key, path in drawn.scores.items()],
        EVALUATIONS: [(path, "judged metric against training step") for path in (drawn.last_and_best,) if path],
    }
    for section in sections(result, Layout()):
        parts += _section(section, shown.get(section.heading, ()))
    undrawn = undrawn_maps(result)
    more: dict[str, tuple[Sequence[Path], Sequence[str]]] = {
        "Measured against predicted": (drawn.pairs, ()),
        "Steps until it was reached": (drawn.steps, ()),
        "Families of metrics": (drawn.families, ()),
        "Maps of the weights": (drawn.maps, undrawn),
        "The first configurations in detail": (own, ()),
    }
    for heading, (paths, sentences) in more.items():
        if paths or sentences:
            figures = [(path, path.stem) for path in paths]
            parts += _section(Section(heading=heading, paragraphs=sentences), figures)
    parts += _section(Section(heading="Provenance", tables={"": provenance_columns(result)}))
    if ran_under := ran_under_columns(result):
        heading = "What the packs ran under"
        parts += _section(Section(heading=heading, tables={"": ran_under}, notes=ran_under_notes(result)), tag="h3")
    commands = {
        "the same sweep again": f"{command('run', result.folder / 'sweep.yaml')} --name another-name",
        "these tables again": command("report", result.folder),
        "to MLflow": command("publish", result.folder),
    }
    width = max(map(len, commands.values()))
    typed_lines = "\n".join(f"{typed:{width}}   # {what}" for what, typed in commands.items())
    parts += [
        f"<h2>Commands</h2><pre>{html.escape(typed_lines)}\n"
        "</pre><p class=note>Every curve of every seed is in curves.parquet (columns config_id, seed, average, metric, "
        "length, step, value).</p>"
    ]
    title = html.escape(f"lengthwise: {result.name}")
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body>\n" + "\n".join(parts) + "\n</body></html>\n"
    )


def _section(section: Section, figures: Figures = (), tag: str = "h2") -> list[str]:
    return [
        f"<{tag}>{html.escape(section.heading)}</{tag}>",
        *_paragraphs(section.paragraphs),
        *_paragraphs(section.notes, "note"),
        *map(_html_table, section.tables.values()),
        *(_image(path, alt) for path, alt in figures),
    ]


def _paragraphs(sentences: Iterable[str], kind: str = "") -> list[str]:
    return [f"<p{f' class={kind}' if kind else ''}>{html.escape(sentence)}</p>" for sentence in sentences]


def in_detail(result: Summary) -> list[Row]:
    """The configurations that have a figure of their own on the page."""
    return [row for row in result.rows if row.rank and row.complete][:FIGURES_OF_THE_FIRST]


def figure_of(result: Summary, row: Row) -> Path:
    """The file with the figure of one configuration."""
    return result.folder / "figures" / f"configuration-{row.config_id}.png"


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
