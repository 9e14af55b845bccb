"""Write the table of configurations as LaTeX with booktabs."""

import math
import re
from collections.abc import Mapping

from orchestrator.export.user_labels import select_labelled_rows
from orchestrator.report.tables.columns import are_numbers
from orchestrator.results.outcomes import get_searched_value
from orchestrator.results.summary import Summary
from orchestrator.statistics.quartiles import Quartiles
from orchestrator.text.redaction import remove_controls
from orchestrator.text.wording import (
    compact_value,
    format_label,
    format_lengths,
    format_number,
    shorten_keys,
)

_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}"},
    **{">": r"\textgreater{}", "|": r"\textbar{}", '"': "''", "∞": r"$\infty$"},
}


def make_latex_table(summary: Summary, labels: Mapping[str, str]) -> str:
    """Return a `tabular` of configurations: values, medians with quartiles over seeds, failed seeds.

    The rows are the configurations that have a label, in that order, or else all by score. `labels` also renames
    searched keys, configurations ("#3") and the columns trained, selection, test and seeds. The document needs
    \\usepackage{booktabs}.
    """
    # Columns that would be empty in every row are left out.
    keys = [key for key in summary.searched if any(key in row.values for row in summary.rows)]
    short_names = shorten_keys(keys)
    groups = [
        group
        for group in ("trained", "selection", "test")
        if any(getattr(row, f"{group}_quartiles") for row in summary.rows)
    ]
    header = ["", *(labels.get(key, short_names[key]) for key in keys), *(labels.get(group, group) for group in groups)]
    header.append(labels.get("seeds", "seeds failed"))

    # With labels the user has chosen the rows and their order.
    rows = select_labelled_rows(summary, labels) or summary.rows
    values_by_row = [[compact_value(get_searched_value(summary, row, key, "")) for key in keys] for row in rows]
    alignments = "".join("r" if are_numbers(texts) else "l" for texts in zip(*values_by_row, strict=True))
    lines = []
    for row, values in zip(rows, values_by_row, strict=True):
        label = labels.get(format_label(row.number), format_label(row.number))

        # Values are escaped as texts; medians are formulas already.
        cells = [escape(cell) for cell in (label, *values)]
        if cells[0].startswith(("[", "*")):
            cells[0] = f"{{}}{cells[0]}"  # otherwise the \\ before it would take the cell as an argument
        cells += [_format_quartiles(getattr(row, f"{group}_quartiles")) for group in groups]
        unfinished = "unfinished" if row.pruned_at is None else row.why_unranked
        cells.append(f"{row.seeds_failed} of {row.seeds_run}" + ("" if row.is_complete else f", {unfinished}"))
        lines.append(" & ".join(cells) + r" \\")

    # LaTeX comments explain the numbers in the source of the document, but are not printed.
    comments = [
        "% Needs \\usepackage{booktabs} in the preamble.",
        f"% Sweep {summary.name}: {' '.join(summary.score_label.split())}; ranked by the selection lengths.",
        f"% Median over seeds [quartiles]; {format_lengths(summary.objective.lengths, 'selection')}, "
        f"{format_lengths(summary.test_lengths, 'test')}.",
        f"% {summary.complete_configurations} of {summary.planned_configurations} configurations have all their seeds; "
        f"{summary.seeds_run} seeds ran, {summary.seeds_failed} failed ({summary.objective.failed_seeds}).",
    ]
    body = [rf"\begin{{tabular}}{{l{alignments}{'r' * len(groups)}r}}", r"\toprule"]
    body += [" & ".join(map(escape, header)) + r" \\", r"\midrule", *lines, r"\bottomrule", r"\end{tabular}"]
    return "\n".join([*comments, *body, ""])


def escape(text: str) -> str:
    """Return text as LaTeX prints it: escape("50 % of x_1") -> "50 \\% of x\\_1"."""
    escaped = "".join(_LATEX.get(character, character) for character in remove_controls(text))
    return re.sub("-(?=-)", "-{}", escaped)  # LaTeX would print -- as a dash


def _format_quartiles(quartiles: Quartiles | None) -> str:
    """Return a median with its quartiles as LaTeX; "--" for None."""
    if quartiles is None:
        return "--"
    median, low, high = (_format_as_formula(value) for value in (quartiles.median, quartiles.q25, quartiles.q75))
    return f"{median} [{low}, {high}]"


def _format_as_formula(value: float) -> str:
    """Return a number with three digits as LaTeX; "--" for NaN."""
    text = format_number(value, "∞")
    mantissa, exponent, power = text.partition("e")
    if math.isnan(value):
        return "--"
    if math.isinf(value):
        return rf"${'-' if value < 0 else ''}\infty$"
    return rf"${mantissa} \cdot 10^{{{int(power)}}}$" if exponent else f"${text}$"
