"""The CSV tables of a report, with every number in full."""

import csv
import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from orchestrator.report.tables.columns import Column, Records, make_records, parse_columns
from orchestrator.report.tables.configuration_tables import make_configuration_records, make_confirmation_records
from orchestrator.report.tables.effect_table import EffectLine, list_effect_lines
from orchestrator.report.tables.later_evaluation_table import make_later_records
from orchestrator.report.tables.race_tables import make_race_records, make_rung_records
from orchestrator.report.tables.seed_comparison_table import make_comparison_records
from orchestrator.results.analysis import shows_effects
from orchestrator.results.comparing.seed_comparisons import compare_seeds
from orchestrator.results.scoring.validation_scores import ValidationScore, read_validation_scores
from orchestrator.results.summary import Summary
from orchestrator.text.wording import format_ranges
from trainers.files.atomic_file import write_atomic

REPORT_CSV = "report.csv"


def write_csv(path: Path, records: Records, columns: Sequence[str]) -> None:
    """Write records with the same keys as CSV, None and NaN as empty cells; without records the header is `columns`."""
    # Write to memory first, so that a reader never sees half a file.
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(records[0]) if records else list(columns))
    writer.writeheader()
    writer.writerows(
        {name: "" if value is None or value != value else value for name, value in record.items()} for record in records
    )
    write_atomic(path, [text.getvalue().encode()])


def make_effect_records(summary: Summary) -> Records:
    """Return the lines of effects.csv: one for every outcome and key, or for each value with a difference or slope.

    Empty for a sweep that shows no effects. n is the number of units. correlation is Spearman's, with its interval from
    low to high; middle is the correlation with the distance from the middle value; p belongs to test; difference is the
    outcome at value minus the outcome at the first value, for a key compared within units; partial is the slope with
    the other drawn keys held fixed.
    """
    # The columns of a missing difference or slope are empty.
    columns = [
        *parse_columns("outcome=outcome.group"),
        Column("", lambda line: format_ranges(line.outcome.lengths), "lengths"),
        *parse_columns("hyperparameter=effect.key kind=effect.kind unit=effect.unit n=effect.n"),
        *parse_columns("configurations=effect.configurations dropped=effect.dropped correlation=effect.correlation"),
        *parse_columns(
            "low=effect.low high=effect.high test=effect.test p=effect.p importance=effect.importance.share value "
            "middle=effect.middle.value middle_low=effect.middle.low middle_high=effect.middle.high"
        ),
    ]
    for prefix, part, names in (
        ("difference", "difference", ("median", "low", "high", "n")),
        ("partial", "slope", ("coefficient", "low", "high", "p")),
    ):
        for name in names:
            column = prefix if name == names[0] else f"{prefix}_{name}"
            columns.append(Column("", partial(_read_effect_part, part, name), column))

    # A sweep without effects has no lines.
    columns.append(Column("", lambda line: line.effect.partial.n if line.slope else None, "partial_n"))
    lines = list_effect_lines(summary) if shows_effects(summary) else []
    return make_records(lines, [*columns, *parse_columns("missing=missing_reasons")])


def _read_effect_part(part: str, name: str, line: EffectLine) -> Any:
    """Return an attribute of the difference or the slope of a line; None if the line has none."""
    return getattr(getattr(line, part), name, None)


def make_validation_records(summary: Summary) -> Records:
    """Return the lines of validation.csv: one for every validation score of a member at an evaluation."""
    columns = parse_columns("config_id seed step stage stopped metric average mean")

    # Lengths differ between configurations, so each has a column.
    scores = read_validation_scores(summary.state)
    lengths = sorted({length for score in scores for length in score.lengths})
    columns += [Column("", partial(_read_value_at_length, length), f"at_{length}") for length in lengths]
    return make_records(scores, columns)


def _read_value_at_length(length: int, score: ValidationScore) -> float | None:
    """Return the value of a score at a length; None if it was not evaluated."""
    return dict(zip(score.lengths, score.values, strict=True)).get(length)


TABLES: Mapping[str, Callable[[Summary], Records]] = {
    REPORT_CSV: make_configuration_records,
    "effects.csv": make_effect_records,
    "seed_comparisons.csv": lambda summary: make_comparison_records(compare_seeds(summary)),
    "confirmed.csv": make_confirmation_records,
    "validation.csv": make_validation_records,
    "race.csv": make_race_records,
    "rungs.csv": make_rung_records,
    "later_evaluations.csv": lambda summary: make_later_records(summary.later_evaluations),
}
"""The CSV files of a report by name, with the functions that make their lines."""
OUTDATED_FILES = ("averages.csv", "families.csv", "evaluations.csv", "steps_to.csv", "values.csv")
"""CSV files of earlier versions, which a new report deletes."""


def make_csv_tables(summary: Summary) -> dict[str, Records]:
    """Return the lines of the CSV files of a report by name: report.csv and all others that are not empty."""
    return {name: records for name, make in TABLES.items() if (records := make(summary)) or name == REPORT_CSV}
