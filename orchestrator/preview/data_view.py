"""Show the examples that a sweep will train and evaluate on: as text, tables and a figure."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from rich import box
from rich.table import Table
from rich.text import Text

from orchestrator.engine.engine import measured_by
from orchestrator.errors import UserError, refuse_unwritable
from orchestrator.figures import drawing
from orchestrator.figures.drawing import PALETTE, check_figure_path, printable
from orchestrator.plan import search
from orchestrator.plan.checks.soundness import check_data, configurations_of
from orchestrator.plan.distributions import evaluated_sets
from orchestrator.preview.task_data import Example, Histogram, annotations, examples, has_measures, histograms
from orchestrator.results.scoring.length_groups import few_lengths, length_groups, parse_lengths
from orchestrator.statistics.decades import spans_decades
from orchestrator.trainer import refuse_program
from orchestrator.wording import compact_value, spans, three_digits
from search_spaces import SweepSpec
from trainers.config.member import MemberConfig

NO_MEASURES = "{} does not measure how hard its inputs are, so there are no histograms"
Histograms = dict[str, list[Histogram]]


def data_view(
    spec: SweepSpec, *, count: int, samples: int, lengths: str | None, figure: Path | None
) -> list[str | Table]:
    """Return the lines and tables about the first configuration and seed; draw `figure` if it is given.

    Raises UserError for lengths that do not exist, and for a figure that cannot be drawn or would replace a file that
    lengthwise did not draw; SweepFileError if the configuration cannot be built.
    """
    refuse_program(spec.sections, "data")
    first = search.draw_sample(spec, 1)[0]
    built = configurations_of(spec, [(first.number, first.values)])
    check_data(spec, built)
    member = built[0].member(spec.seeds[0])
    known, example = member.task.lengths, sorted({*member.task.trained_lengths[-1:], max(member.task.lengths)})
    allowed = f"different lengths of this task ({spans(known)}) such as {','.join(map(str, example))}"
    chosen = () if lengths is None else parse_lengths(lengths, known, allowed)
    _check(member, lengths, figure)
    lines = [
        *_heading(spec, member, first.values),
        *example_lines(examples(member, count), annotations(member) if count else ()),
    ]
    if not has_measures(member):
        return [*lines, NO_MEASURES.format(member.task.name)]
    groups = length_groups(measured_by(member), spec.objective)
    found = histograms(member, chosen or few_lengths(groups, member.evaluated_lengths), samples)
    tables: list[str | Table] = []
    for measure, sets in found.items():
        tables += [f"{measure}: share of inputs, {sets[0].inputs:,} of each", histogram_table(measure, sets)]
    if figure is None:
        return [*lines, *tables]
    with refuse_unwritable(figure):
        histogram_figure(f"{spec.name}: {member.task.name}", found, figure)
    return [*lines, *tables, f"drew {figure}"]


def example_lines(found: Sequence[Example], named: Sequence[str] = ()) -> list[str]:
    """Return tokens above their targets and the `named` values, aligned if all have the same number of words.

    Single characters have no blanks between them.
    """
    below = " and ".join(", ".join(["their targets", *named]).rsplit(", ", 1))
    lines = [f"the first inputs it trains on, above {below}:", ""] if found else []
    for rows in found:
        if len({len(words) for words in rows}) > 1:
            lines += [*(" ".join(words) for words in rows), ""]
            continue
        widths = [max(map(len, words)) for words in zip(*rows, strict=True)]
        several = any(" " in word for words in rows for word in words)
        blank = "  " if several else "" if max(widths) == 1 else " "
        for words in rows:
            aligned = (word.ljust(width) for word, width in zip(words, widths, strict=True))
            lines.append(blank.join(aligned).rstrip())
        lines.append("")
    return lines


def histogram_table(measure: str, sets: Sequence[Histogram]) -> Table:
    """Return a table with one line per value, one column per data set with the share of its inputs, and the means."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0, 0, 1), header_style="bold")
    for heading in (measure, *(one.data for one in sets)):
        table.add_column(Text(heading), justify="right", no_wrap=True)
    for value in sorted({value for one in sets for value in one.counts}):
        shares = (compact_value(one.share(value)) if one.counts.get(value) else "-" for one in sets)
        table.add_row(str(value), *shares)
    table.add_section()
    table.add_row("mean", *(three_digits(one.mean) for one in sets))
    return table


def histogram_figure(title: str, found: Histograms, path: Path) -> Path:
    """Draw one panel per measure, with the data sets side by side at each value."""

    def draw() -> Figure:
        figure = Figure(figsize=(1.0 + 5.0 * len(found), 4.2))
        for axes, (measure, sets) in zip(figure.subplots(1, len(found), squeeze=False)[0], found.items(), strict=True):
            width = 0.84 / len(sets)
            for i, one in enumerate(sets):
                at = [value + (i - (len(sets) - 1) / 2) * width for value in one.counts]
                label = f"{one.data} (mean {three_digits(one.mean)})"
                heights = [one.share(value) for value in one.counts]
                axes.bar(at, heights, width, color=PALETTE[i % len(PALETTE)], label=printable(label), zorder=3)
            shares = np.array([one.share(value) for one in sets for value in one.counts])
            if spans_decades(shares):
                axes.set_yscale("log")
                axes.set_ylim(bottom=shares.min() / 2)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=12, min_n_ticks=1))
            axes.set_xlabel(printable(measure))
            axes.set_ylabel("share of inputs")
            axes.grid(axis="y", alpha=0.25, linewidth=0.6)
            axes.spines[["top", "right"]].set_visible(False)
            axes.legend(fontsize=8, frameon=False)
        inputs = next(iter(found.values()))[0].inputs
        figure.suptitle(printable(f"{title}, {inputs:,} inputs of each"), fontsize=10)
        return figure

    return drawing.save(path, draw, title, found)


def _heading(spec: SweepSpec, member: MemberConfig, values: dict[str, Any]) -> list[str]:
    drawn = ", ".join(f"{key} {compact_value(value)}" for key, value in values.items())
    count = search.total(spec)
    which = f"configuration 0 of {count}" if count > 1 else "its only configuration"
    which += f" ({drawn})" if drawn else ""
    return [
        f"{spec.name}: task {member.task.name}, {which}, seed {member.seed}",
        f"trained on lengths {spans(member.task.trained_lengths)}, evaluated at {evaluated_sets(measured_by(member))}",
        "",
    ]


def _check(member: MemberConfig, lengths: str | None, figure: Path | None) -> None:
    """Raise UserError for options that cannot be fulfilled, before anything is drawn."""
    for option, given in (("--figure", figure), ("--lengths", lengths)):
        if given is not None and not has_measures(member):
            raise UserError(
                f"{option} {given}: {member.task.name} does not measure its inputs, so there are no histograms"
            )
    if figure is not None:
        check_figure_path(figure)
