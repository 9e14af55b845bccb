"""The tables of a report as CSV: every number in full, one line per configuration, effect, comparison, confirmation."""

import csv
import io
import json
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from orchestrator.results.analysis import (
    compare_weight_averages,
    effects_at_test_lengths,
    effects_on_score,
    read_confirmations,
    shows_effects,
)
from orchestrator.results.comparing.seed_comparisons import SeedComparison, compare_seeds
from orchestrator.results.confirmed import Confirmed
from orchestrator.results.effects.hyperparameter_effects import Effect
from orchestrator.results.summary import Row, Summary
from orchestrator.results.views.families import family_names, family_points
from orchestrator.results.views.steps_to import steps_to
from orchestrator.statistics.partial_effects import Slope
from orchestrator.statistics.quartiles import Quartiles
from orchestrator.statistics.within import Difference
from orchestrator.wording import spans
from trainers.files.atomic_file import write_whole

REPORT_CSV, EFFECTS_CSV, AVERAGES_CSV = "report.csv", "effects.csv", "averages.csv"
CONFIRMED_CSV, FAMILIES_CSV, EVALUATIONS_CSV = "confirmed.csv", "families.csv", "evaluations.csv"
SEED_COMPARISONS_CSV, VALIDATION_CSV, STEPS_CSV = "seed_comparisons.csv", "validation.csv", "steps_to.csv"

Lines = list[dict[str, Any]]
QUARTILES = ("median", "q25", "q75")


def write_csv(path: Path, lines: Lines, columns: Sequence[str]) -> None:
    """Write lines of equal columns, None and NaN as empty cells; a table without lines has the header `columns`."""
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, fieldnames=list(lines[0]) if lines else list(columns))
    writer.writeheader()
    writer.writerows(
        {name: "" if value is None or value != value else value for name, value in line.items()} for line in lines
    )
    write_whole(path, [text.getvalue().encode()])


def csv_tables(result: Summary) -> dict[str, Lines]:
    """Return the lines of the CSV files of a report, by name; apart from report.csv those that have any."""
    found = {
        EFFECTS_CSV: effect_lines(result) if shows_effects(result) else [],
        SEED_COMPARISONS_CSV: seed_comparison_lines(compare_seeds(result)),
        AVERAGES_CSV: average_lines(result),
        CONFIRMED_CSV: confirmed_lines(read_confirmations(result)),
        FAMILIES_CSV: family_lines(result),
        EVALUATIONS_CSV: last_and_best_lines(result),
        VALIDATION_CSV: validation_lines(result),
        STEPS_CSV: steps_lines(result),
    }
    return {REPORT_CSV: configuration_lines(result)} | {name: lines for name, lines in found.items() if lines}


def configuration_lines(result: Summary) -> Lines:
    """report.csv: a line for every configuration, by rank."""
    return [_configuration(result, row) for row in result.rows]


def effect_lines(result: Summary) -> Lines:
    """effects.csv: a line for every outcome and searched key, for categories one for each value held against the first.

    n counts the unit. correlation: Spearman with its interval; p: of the test; difference, of a key compared within
    units, at value from the first one; partial: with the other drawn keys held fixed.
    """
    lines: Lines = []
    for group, lengths, effects in (
        ("selection", result.objective.lengths, effects_on_score(result)),
        ("test", result.test_lengths, effects_at_test_lengths(result)),
    ):
        for effect in effects:
            reasons = {
                "correlation" if effect.kind == "numeric" and not effect.differences else "effect": effect.reason,
                "partial": effect.partial.reason,
                "importance": effect.importance.reason,
            }
            lines += [
                {
                    "outcome": group,
                    "lengths": spans(lengths),
                    "hyperparameter": effect.key,
                    **_fields(
                        effect,
                        "kind",
                        "unit",
                        "n",
                        "configurations",
                        "dropped",
                        "correlation",
                        "low",
                        "high",
                        "test",
                        "p",
                    ),
                    "importance": effect.importance.share,
                    **of_value,
                    "missing": "; ".join(f"{what}: {why}" for what, why in reasons.items() if why),
                }
                for of_value in _by_value(effect)
            ]
    return lines


def _by_value(effect: Effect) -> Lines:
    """What a hyperparameter has for each value but its first, or once for all numbers."""
    apart = {one.value: one for one in effect.differences}
    held = {one.value: one for one in effect.partial.slopes}
    return [
        {
            "value": value,
            **_columns("difference", apart.get(value), ("difference", "low", "high", "n")),
            **_columns("partial", held.get(value), ("coefficient", "low", "high", "p")),
            "partial_n": effect.partial.n if value in held else None,
        }
        for value in dict.fromkeys([*apart, *held]) or [""]
    ]


def _columns(prefix: str, of_value: Difference | Slope | None, fields: Sequence[str]) -> dict[str, Any]:
    """Return the fields of one value, the first under the name `prefix` alone; None in each where there are none."""
    names = [prefix, *(f"{prefix}_{name}" for name in fields[1:])]
    return {name: getattr(of_value, of_field, None) for name, of_field in zip(names, fields, strict=True)}


def average_lines(result: Summary) -> Lines:
    """averages.csv: a line for every average against the objective's and every group of lengths."""
    return [
        {"group": one.group, "average": one.average, "against": one.against, **vars(one)}
        for one in compare_weight_averages(result)
    ]


def seed_comparison_lines(found: Sequence[SeedComparison]) -> Lines:
    """seed_comparisons.csv: a line for every comparison and group of lengths; differences are first - second.

    The last columns say in which resolved keys the two differ: JSON, with null for a key that one does not have.
    """
    return [
        {
            "family": one.family,
            "group": one.question.group,
            "lengths": spans(one.question.lengths),
            "metric": one.question.metric,
            "average": one.question.average,
            **_fields(one, "first", "second", "first_median", "second_median"),
            **_fields(one.found, "paired", "n"),
            "n_second": one.found.n if one.found.paired else one.found.n_second,
            **_fields(one.found, "difference", "low", "high", "level"),
            "mean_difference": one.found.mean,
            "first_better": one.first_better if one.found.paired else "",
            "second_better": one.second_better if one.found.paired else "",
            "ties": one.found.ties if one.found.paired else "",
            **_fields(one.found, "p", "smallest_p"),
            **_fields(one, "holm_p", "tests", "first_seeds", "second_seeds", "first_failed", "second_failed"),
            "shared": one.shared.sentence,
            "missing": one.found.reason,
            **{
                f"{side}_values": json.dumps(
                    {key: values[place] for key, values in one.shared.differing.items()}, ensure_ascii=False
                )
                for place, side in enumerate(("first", "second"))
            },
        }
        for one in found
    ]


def confirmed_lines(confirmed: Sequence[Confirmed]) -> Lines:
    """confirmed.csv: a line for every configuration of every confirmation."""
    lines: Lines = []
    for one in confirmed:
        for row in one.rows:
            line: dict[str, Any] = {"confirmation": one.name, "search": one.parent, "config_id": row.config_id}
            line |= {"search_rank": row.search_rank, "values": json.dumps(row.values, ensure_ascii=False)}
            numbers = {
                **_fields(row, "search", "confirmed", "search_test", "confirmed_test"),
            }
            for what, at in numbers.items():
                named = what if what.endswith("test") else f"{what}_score"
                line |= {f"{named}{'' if name == 'median' else f'_{name}'}": value for name, value in _quartiles(at)}
            line |= {"seeds": spans(one.seeds), "seeds_run": row.seeds_run, "seeds_failed": row.seeds_failed}
            lines.append(line)
    return lines


def family_lines(result: Summary) -> Lines:
    """families.csv: a line for every configuration, family, index and length that has a number."""
    return [
        {
            "config_id": point.config_id,
            "family": name,
            **_fields(point, "index", "length", "median", "q25", "q75"),
            "seeds": point.counted,
        }
        for name in family_names(result)
        for point in family_points(result, name)
    ]


def last_and_best_lines(result: Summary) -> Lines:
    """evaluations.csv: a line for every configuration that was evaluated more than once; `chosen_steps` by seed."""
    ranks = {row.config_id: row.rank or "" for row in result.rows}
    lines: Lines = []
    for one in result.last_and_best:
        line: dict[str, Any] = {"rank": ranks[one.config_id], "config_id": one.config_id}
        for which, at_step in (("last", one.last), ("chosen", one.best)):
            for group in ("trained", "selection", "test"):
                at = getattr(at_step, group)
                line |= {f"{which}_{group}_{name}": value for name, value in _quartiles(at)}
        line |= {f"test_difference_{name}": value for name, value in _quartiles(one.difference)}
        line |= {"test_fluctuation": one.fluctuation, "evaluations": len(one.evaluated)}
        for name, function in (("median", statistics.median), ("min", min), ("max", max)):
            line[f"chosen_step_{name}"] = function(one.steps.values()) if one.steps else ""
        lines.append(line | {"chosen_steps": json.dumps(one.steps)})
    return lines


def validation_lines(result: Summary) -> Lines:
    """validation.csv: a line for every evaluation of a seed and every validation score."""
    lengths = sorted({length for one in result.validation_scores for length in one.lengths})
    return [
        {
            **_fields(one, "config_id", "seed", "step", "stage", "stopped", "metric", "average", "mean"),
            **{f"at_{length}": dict(zip(one.lengths, one.values, strict=True)).get(length) for length in lengths},
        }
        for one in result.validation_scores
    ]


def steps_lines(result: Summary) -> Lines:
    """steps_to.csv: steps until something was reached against a searched key; infinite where half never reached it."""
    return [
        {
            **_fields(one, "metric", "key"),
            "value": point.value,
            "line": json.dumps(dict(zip(one.line_keys, point.line, strict=True))),
            **dict(_quartiles(point.over_seeds)),
            "seeds": len(point.steps) + point.failed,
            **_fields(point, "never", "failed"),
        }
        for one in steps_to(result)
        for point in one.points
    ]


def _configuration(result: Summary, row: Row) -> dict[str, Any]:
    line: dict[str, Any] = {"rank": row.rank or "", "config_id": row.config_id, "number": row.number}
    line |= {key: _plain(row.values.get(key, "")) for key in result.searched}
    line |= {"score": row.score, "score_q25": row.score_q25, "score_q75": row.score_q75}
    for group, at in (("trained", row.trained), ("selection", row.selection), ("test", row.test)):
        line |= {f"{group}_{name}": value for name, value in _quartiles(at)}
    for metric, group in dict.fromkeys(one for other in result.rows for one in other.beside):
        line |= {f"{metric}_{group}_{name}": value for name, value in _quartiles(row.beside.get((metric, group)))}
    return line | {
        **_fields(
            row, "generalization_length", "area_beyond", "seeds_planned", "seeds_run", "seeds_failed", "seeds_crashed"
        ),
        **(_stopped(row) if result.may_stop else {}),
        **_fields(row, "complete", "failed", "form"),
    }


def _stopped(row: Row) -> dict[str, Any]:
    median = statistics.median(row.stopped_at) if row.stopped_at else ""
    return {"seeds_stopped": len(row.stopped_at), "stopped_at_median": median}


def _fields(of: object, *names: str) -> dict[str, Any]:
    """Return fields whose columns have the same names."""
    return {name: getattr(of, name) for name in names}


def _quartiles(at: Quartiles | None) -> Iterator[tuple[str, float | None]]:
    for name in QUARTILES:
        yield name, getattr(at, name) if at else None


def _plain(value: Any) -> Any:
    return value if isinstance(value, str | int | float) and not isinstance(value, bool) else json.dumps(value)
