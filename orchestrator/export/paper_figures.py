"""Draw figures for papers: files of a given size, with embedded fonts and line styles that are legible in grey."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl

from orchestrator.errors import UserError
from orchestrator.export.user_labels import select_labelled_rows
from orchestrator.figures.drawing import file_name
from orchestrator.figures.figure_files import STYLE, make_figure, render_curves, render_figure
from orchestrator.figures.on_axes import plot_effect
from orchestrator.results.summary import Summary
from orchestrator.text.wording import format_lengths

FORMATS = ("pdf", "svg", "png")
DEFAULT_SIZE = (3.3, 2.4)  # inches: one column of a two-column page
MIN_INCHES, MAX_INCHES = 1.0, 40.0  # of a side


def parse_size(text: str) -> tuple[float, float]:
    """Return width and height in inches: parse_size("3.3x2.4") -> (3.3, 2.4). Raises UserError for anything else."""
    # Numbers out of range, NaN and infinity fall through to the same error as other texts.
    try:
        width, height = map(float, text.lower().split("x"))
        if all(math.isfinite(side) and MIN_INCHES <= side <= MAX_INCHES for side in (width, height)):
            return width, height
    except ValueError:
        pass
    raise UserError(
        f"--size {text}: allowed: WIDTHxHEIGHT in inches, each {MIN_INCHES:g} to {MAX_INCHES:g}, such as 3.3x2.4"
    )


def draw_paper_figures(
    summary: Summary, file_format: str, folder: Path, size: tuple[float, float], labels: Mapping[str, str]
) -> dict[Path, bytes]:
    """Return the bytes of the figures by path below `folder`: median curves, and the effect of every searched key.

    The curves show the configurations that have a label, in that order, or else the first by score. The same
    sweep gives the same bytes. Raises UserError for an unknown format and if there is nothing to draw.
    """
    if file_format not in FORMATS:
        raise UserError(f"--figures {file_format}: allowed: {', '.join(FORMATS)}")
    curves = render_curves(summary, file_format, size, select_labelled_rows(summary, labels), labels)
    files = {folder / f"{summary.name}-curves.{file_format}": curves}
    with mpl.rc_context(STYLE):
        # An effect needs two scores.
        for key in summary.searched:
            if sum(key in row.values and row.score is not None for row in summary.rows) > 1:
                figure, axes = make_figure(size)
                plot_effect(summary, key, axes, labels=labels)
                axes.yaxis.label.set_fontsize(8)
                axes.set_title("", loc="left")  # the caption has this text
                files[folder / f"{summary.name}-{file_name(key)}.{file_format}"] = render_figure(figure, file_format)
    return files


def make_caption(summary: Summary, labels: Mapping[str, str]) -> str:
    """Return sentences for the caption of the curves of the labelled configurations, or of all."""
    # A caption that counts only the drawn configurations would hide failures in the others.
    rows = select_labelled_rows(summary, labels) or summary.rows
    ran = sum(row.seeds_run for row in rows)
    failed = sum(row.seeds_failed for row in rows)
    totals = ""
    if len(rows) < len(summary.rows):
        totals = f"; of all {len(summary.rows)} configurations {summary.seeds_run} and {summary.seeds_failed}"

    # The reader must know which lengths influenced the selection.
    was = "was" if len(summary.test_lengths) == 1 else "were"
    test = f"; {format_lengths(summary.test_lengths)} {was} used for neither" if summary.test_lengths else ""
    seeds = replace(summary, rows=tuple(rows)).seeds_in_words
    return (
        f"Lines: median over {seeds}; bands: quartiles; thin lines: single seeds "
        f"({ran} ran, {failed} failed{totals}). Shaded: trained lengths; hatched: "
        f"{format_lengths(summary.objective.lengths)}, by which configurations are ranked{test}."
    )
