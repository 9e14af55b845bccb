"""The tables of a report as CSV files, with every number in full; a column is a function of a line."""

import csv
import io
import json
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

from orchestrator.report.tables.columns import Columns, fields, optional_field, quartile_fields
from orchestrator.report.tables.configurations import read_other_distribution
from orchestrator.report.tables.effects import effect_lines as lines_of_effects
from orchestrator.report.tables.later_evaluations import later_lines
from orchestrator.report.tables.race import race_lines, rung_lines
from orchestrator.results.analysis import shows_effects
from orchestrator.results.comparing.seed_comparisons import SeedComparison, compare_seeds
from orchestrator.results.confirmed import read_confirmations
from orchestrator.results.outcomes import searched_value
from orchestrator.results.scoring.validation_scores import ValidationScore, read_validation_scores
from orchestrator.results.summary import Row, Summary
from orchestrator.wording import spans
from trainers.files.atomic_file import write_atomic

REPORT_CSV = "report.csv"

Lines = list[dict[str, Any]]


def write_csv(path: Path, lines: Lines, columns: Sequence[str]) -> None:
    """Write lines of equal columns, None and NaN as empty cells; a table without lines has the header `columns`."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(lines[0]) if lines else list(columns))
    writer.writeheader()
    writer.writerows(
        {name: "" if value is None or value != value else value for name, value in line.items()} for line in lines
    )
    write_atomic(path, [text.getvalue().encode()])


def configuration_lines(result: Summary) -> Lines:
    """Return a line for every configuration, by rank."""
    columns: Columns = {"rank": lambda row: row.rank or "", **fields("config_id number")}
    columns |= {key: partial(_searched_value, result, key) for key in result.searched}
    columns |= quartile_fields("score=scored trained_median=trained selection_median=selection test_median=test")
    for metric, group in dict.fromkeys(one for row in result.rows for one in row.other_distributions):
        for name in ("median", "q25", "q75"):
            columns[f"{metric}_{group}_{name}"] = optional_field(read_other_distribution(metric, group), name)
    columns |= fields("generalization_length area_beyond seeds_planned seeds_run seeds_failed seeds_crashed")
    if result.may_stop:
        columns["seeds_stopped"] = lambda row: len(row.stopped_at)
        columns["stopped_at_median"] = lambda row: statistics.median(row.stopped_at) if row.stopped_at else ""
    if result.race is not None:
        columns |= fields("rounds pruned_at") if result.race.rungs else fields("rounds")
    return _lines(result.rows, columns | fields("complete failed form"))


def effect_lines(result: Summary) -> Lines:
    """Return a line for every outcome and key, for categories one for each value that is compared with the first.

    Empty for a sweep that shows no effects. n is the number of units. correlation is Spearman's, with the interval low
    to high; p is that of test; difference is the outcome at value minus that at the first value, for a key compared
    within units; partial is the slope with the other drawn keys held fixed.
    """
    columns: Columns = {
        **fields("outcome=outcome.group"),
        "lengths": lambda line: spans(line.outcome.lengths),
        **fields("hyperparameter=effect.key kind=effect.kind unit=effect.unit n=effect.n"),
        **fields("configurations=effect.configurations dropped=effect.dropped correlation=effect.correlation"),
        **fields(
            "low=effect.low high=effect.high test=effect.test p=effect.p importance=effect.importance.share value"
        ),
    }
    for prefix, part, names in (
        ("difference", "difference", ("difference", "low", "high", "n")),
        ("partial", "slope", ("coefficient", "low", "high", "p")),
    ):
        for name in names:
            column = prefix if name == names[0] else f"{prefix}_{name}"
            columns[column] = optional_field(attrgetter(part), name)
    columns["partial_n"] = lambda line: line.effect.partial.n if line.slope else None
    lines = lines_of_effects(result) if shows_effects(result) else []
    return _lines(lines, columns | fields("missing=reasons"))


def seed_comparison_lines(comparisons: Sequence[SeedComparison]) -> Lines:
    """Return a line for every comparison and group of lengths; differences are first - second.

    The last columns say in which resolved keys the two differ: JSON, with null for a key that one does not have.
    """

    def values(place: int) -> Any:
        return lambda one: _json({key: both[place] for key, both in one.shared.differing.items()})

    columns: Columns = {
        **fields("family group=question.group"),
        "lengths": lambda one: spans(one.question.lengths),
        **fields("metric=question.metric average=question.average first second first_median second_median"),
        **fields("paired=outcome.paired n=outcome.n"),
        "n_second": lambda one: one.outcome.n if one.outcome.paired else one.outcome.n_second,
        **fields("difference=outcome.difference low=outcome.low high=outcome.high level=outcome.level"),
        **fields("mean_difference=outcome.mean"),
        **fields("first_better second_better"),
        "ties": lambda one: one.outcome.ties if one.outcome.paired else None,
        **fields("p=outcome.p smallest_p=outcome.smallest_p holm_p tests"),
        **fields("first_seeds second_seeds first_failed second_failed shared=shared.sentence missing=outcome.reason"),
        "first_values": values(0),
        "second_values": values(1),
    }
    return _lines(comparisons, columns)


def confirmed_lines(result: Summary) -> Lines:
    """Return a line for every configuration of every confirmation."""
    scores = "search_score=search confirmed_score=confirmed search_test confirmed_test"
    columns: Columns = {
        **fields("config_id search_rank"),
        "values": lambda row: _json(row.values),
        **quartile_fields(scores),
    }
    return [
        {"confirmation": one.name, "search": one.parent, **line, "seeds": spans(one.seeds), **seeds}
        for one in read_confirmations(result)
        for line, seeds in zip(
            _lines(one.rows, columns), _lines(one.rows, fields("seeds_run seeds_failed")), strict=True
        )
    ]


def validation_lines(result: Summary) -> Lines:
    """Return a line for every evaluation of a seed and every validation score."""
    columns = fields("config_id seed step stage stopped metric average mean")
    scores = read_validation_scores(result.state)
    for length in sorted({length for score in scores for length in score.lengths}):
        columns[f"at_{length}"] = partial(_value_at, length)
    return _lines(scores, columns)


def _lines(lines: Iterable[object], columns: Columns) -> Lines:
    return [_line(line, columns) for line in lines]


def _line(line: object, columns: Columns) -> dict[str, Any]:
    return {name: value(line) for name, value in columns.items()}


def _searched_value(result: Summary, key: str, row: Row) -> Any:
    value = searched_value(result, row, key, "")
    return value if isinstance(value, str | int | float) and not isinstance(value, bool) else json.dumps(value)


def _value_at(length: int, score: ValidationScore) -> float | None:
    return dict(zip(score.lengths, score.values, strict=True)).get(length)


def _json(values: Mapping[Any, Any]) -> str:
    return json.dumps(values, ensure_ascii=False)


TABLES: Mapping[str, Callable[[Summary], Lines]] = {
    REPORT_CSV: configuration_lines,
    "effects.csv": effect_lines,
    "seed_comparisons.csv": lambda result: seed_comparison_lines(compare_seeds(result)),
    "confirmed.csv": confirmed_lines,
    "validation.csv": validation_lines,
    "race.csv": race_lines,
    "rungs.csv": rung_lines,
    "later_evaluations.csv": lambda result: later_lines(result.later_evaluations),
}
"""The CSV files of a report by name, with the functions that make their lines."""
EARLIER = ("averages.csv", "families.csv", "evaluations.csv", "steps_to.csv", "values.csv")
"""Files of the reports of earlier versions."""


def csv_tables(result: Summary) -> dict[str, Lines]:
    """Return the lines of the CSV files of a report by name: report.csv, and the others that have any."""
    return {name: lines for name, make in TABLES.items() if (lines := make(result)) or name == REPORT_CSV}
