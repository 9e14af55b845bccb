"""The CSV tables of a report, with every number in full."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from orchestrator.report.tables.columns import Column, Lines, csv_columns, make_lines
from orchestrator.report.tables.configurations import configuration_lines, confirmed_lines
from orchestrator.report.tables.effects import EffectLine, list_effect_lines
from orchestrator.report.tables.later_evaluations import later_lines
from orchestrator.report.tables.race import race_lines, rung_lines
from orchestrator.report.tables.seed_comparisons import comparison_lines
from orchestrator.results.analysis import shows_effects
from orchestrator.results.comparing.seed_comparisons import compare_seeds
from orchestrator.results.scoring.validation_scores import ValidationScore, read_validation_scores
from orchestrator.results.summary import Summary
from orchestrator.text.wording import spans
from trainers.files.atomic_file import write_atomic

REPORT_CSV = "report.csv"


def write_csv(path: Path, lines: Lines, columns: Sequence[str]) -> None:
    """Write lines with the same keys as CSV, None and NaN as empty cells; without lines the header is `columns`."""
    # Write to memory first, so that a reader never sees half a file.
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(lines[0]) if lines else list(columns))
    writer.writeheader()
    writer.writerows(
        {name: "" if value is None or value != value else value for name, value in line.items()} for line in lines
    )
    write_atomic(path, [text.getvalue().encode()])


def make_effect_records(result: Summary) -> Lines:
    """Return the lines of effects.csv: one for every outcome and key, or for each value with a difference or slope.

    Empty for a sweep that shows no effects. n is the number of units. correlation is Spearman's, with its interval from
    low to high; p is that of test; difference is the outcome at value minus the outcome at the first value, for a key
    compared within units; partial is the slope with the other drawn keys held fixed.
    """
    # The effect of each key, and its difference or slope at each value.
    columns = [
        *csv_columns("outcome=outcome.group"),
        Column("", lambda line: spans(line.outcome.lengths), "lengths"),
        *csv_columns("hyperparameter=effect.key kind=effect.kind unit=effect.unit n=effect.n"),
        *csv_columns("configurations=effect.configurations dropped=effect.dropped correlation=effect.correlation"),
        *csv_columns(
            "low=effect.low high=effect.high test=effect.test p=effect.p importance=effect.importance.share value"
        ),
    ]
    for prefix, part, names in (
        ("difference", "difference", ("difference", "low", "high", "n")),
        ("partial", "slope", ("coefficient", "low", "high", "p")),
    ):
        for name in names:
            column = prefix if name == names[0] else f"{prefix}_{name}"
            columns.append(Column("", partial(_read_part, part, name), column))

    # A sweep without effects has no lines.
    columns.append(Column("", lambda line: line.effect.partial.n if line.slope else None, "partial_n"))
    lines = list_effect_lines(result) if shows_effects(result) else []
    return make_lines(lines, [*columns, *csv_columns("missing=reasons")])


def _read_part(part: str, name: str, line: EffectLine) -> Any:
    """Return an attribute of the difference or the slope of a line; None if the line has none."""
    return getattr(getattr(line, part), name, None)


def validation_lines(result: Summary) -> Lines:
    """Return the lines of validation.csv: one for every validation score of a member at an evaluation."""
    columns = csv_columns("config_id seed step stage stopped metric average mean")

    # Lengths differ between configurations, so each has a column.
    scores = read_validation_scores(result.state)
    lengths = sorted({length for score in scores for length in score.lengths})
    columns += [Column("", partial(_read_value, length), f"at_{length}") for length in lengths]
    return make_lines(scores, columns)


def _read_value(length: int, score: ValidationScore) -> float | None:
    """Return the value of a score at a length; None if it was not evaluated."""
    return dict(zip(score.lengths, score.values, strict=True)).get(length)


TABLES: Mapping[str, Callable[[Summary], Lines]] = {
    REPORT_CSV: configuration_lines,
    "effects.csv": make_effect_records,
    "seed_comparisons.csv": lambda result: comparison_lines(compare_seeds(result)),
    "confirmed.csv": confirmed_lines,
    "validation.csv": validation_lines,
    "race.csv": race_lines,
    "rungs.csv": rung_lines,
    "later_evaluations.csv": lambda result: later_lines(result.later_evaluations),
}
"""The CSV files of a report by name, with the functions that make their lines."""
OUTDATED_FILES = ("averages.csv", "families.csv", "evaluations.csv", "steps_to.csv", "values.csv")
"""CSV files of earlier versions, which a new report deletes."""


def csv_tables(result: Summary) -> dict[str, Lines]:
    """Return the lines of the CSV files of a report by name: report.csv and all others that are not empty."""
    return {name: lines for name, make in TABLES.items() if (lines := make(result)) or name == REPORT_CSV}
