"""The page of a sweep: one HTML file that needs nothing else, without scripts, its figures inside."""

import base64
import html
from collections.abc import Iterable
from pathlib import Path

from orchestrator.figures.curves import Drawn, configuration_figure
from orchestrator.figures.maps import undrawn_maps
from orchestrator.report.tables.effect_tables import comparison_columns, comparison_note, effect_columns, effect_notes
from orchestrator.report.tables.last_and_best_tables import TITLE, last_and_best_columns, last_and_best_notes
from orchestrator.report.tables.provenance_tables import provenance_columns, ran_under_columns, ran_under_notes
from orchestrator.report.tables.seed_comparison_tables import TITLE as OVER_SEEDS
from orchestrator.report.tables.seed_comparison_tables import comparison_columns as seed_columns
from orchestrator.report.tables.seed_comparison_tables import comparison_notes as seed_notes
from orchestrator.report.tables.tables import (
    Columns,
    confirmed_columns,
    headlines,
    place_columns,
    result_columns,
    table_title,
    value_columns,
)
from orchestrator.results.analysis import compare_weight_averages, read_confirmations, shows_effects, why_no_effects
from orchestrator.results.comparing.seed_comparisons import compare_seeds
from orchestrator.results.summary import Row, Summary
from orchestrator.wording import command

FIGURES_OF_THE_FIRST = 3


def page(result: Summary, drawn: Drawn) -> str:
    """The HTML page: no scripts, no links to other files, figures inside."""
    own = [configuration_figure(result, r, figure_of(result, r)) for r in in_detail(result)]
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
    if compare_seeds(result):
        sections += [
            f"<h2>{OVER_SEEDS}</h2>",
            *(f"<p class=note>{html.escape(note)}</p>" for note in seed_notes(result, compare_seeds(result))),
            _html_table(seed_columns(result, compare_seeds(result))),
        ]
    for one in read_confirmations(result):
        sections += [
            "<h2>Search score and confirmed score</h2>",
            f"<p>{html.escape(one.sentence)}.</p>",
            _html_table(confirmed_columns(result, one, "\n")),
        ]
    if shows_effects(result):
        scores = "".join(_image(path, f"outcome against {key}") for key, path in drawn.scores.items())
        sections += [
            "<h2>Effect of each hyperparameter</h2>",
            *(f"<p class=note>{html.escape(note)}</p>" for note in effect_notes(result)),
            _html_table(effect_columns(result)),
            f"<div>{scores}</div>",
        ]
    elif reason := why_no_effects(result):
        sections += ["<h2>Effect of each hyperparameter</h2>", f"<p>{html.escape(reason)}</p>"]
    if compare_weight_averages(result):
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
    if drawn.steps:
        sections += ["<h2>Steps until it was reached</h2>", *(_image(path, path.stem) for path in drawn.steps)]
    if drawn.families:
        sections += ["<h2>Families of metrics</h2>", *(_image(path, path.stem) for path in drawn.families)]
    undrawn = undrawn_maps(result)
    if drawn.maps or undrawn:
        sections += ["<h2>Maps of the weights</h2>", *(f"<p>{html.escape(line)}</p>" for line in undrawn)]
        sections += [_image(path, path.stem) for path in drawn.maps]
    if own:
        sections += ["<h2>The first configurations in detail</h2>", *(_image(path, path.stem) for path in own)]
    sections += ["<h2>Provenance</h2>", _html_table(provenance_columns(result))]
    if ran_under := ran_under_columns(result):
        sections += [
            "<h3>What the packs ran under</h3>",
            *(f"<p class=note>{html.escape(note)}</p>" for note in ran_under_notes(result)),
            _html_table(ran_under),
        ]
    commands = {
        "the same sweep again": f"{command('run', result.folder / 'sweep.yaml')} --name another-name",
        "these tables again": command("report", result.folder),
        "to MLflow": command("publish", result.folder),
    }
    width = max(map(len, commands.values()))
    lines = "\n".join(f"{typed:{width}}   # {what}" for what, typed in commands.items())
    sections += [
        f"<h2>Commands</h2><pre>{html.escape(lines)}\n"
        "</pre><p class=note>Every curve of every seed is in curves.parquet (columns config_id, seed, average, metric, "
        "length, step, value).</p>"
    ]
    title = html.escape(f"lengthwise: {result.name}")
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style></head><body>\n" + "\n".join(sections) + "\n</body></html>\n"
    )


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
