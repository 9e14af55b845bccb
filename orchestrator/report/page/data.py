"""Collect the data of the page of a sweep as a JSON object, which its script draws."""

import base64
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from orchestrator.record.files.recorded_modules import import_recorded
from orchestrator.record.state.labels import make_label
from orchestrator.report.confirmation_sentences import describe_confirmed_pair
from orchestrator.report.judging_notes import format_trained
from orchestrator.report.lead_sentences import has_leader, make_extend_command
from orchestrator.report.tables.columns import make_cells
from orchestrator.report.tables.configuration_tables import (
    make_identity_columns,
    make_result_columns,
    make_value_columns,
)
from orchestrator.report.tables.effect_table import describe_chance, list_outcomes, list_slopes
from orchestrator.results.analysis import explain_missing_effects, shows_effects
from orchestrator.results.comparing.shared_streams import are_paired
from orchestrator.results.outcomes import get_searched_value
from orchestrator.results.read_confirmations import has_fresh_seeds, read_confirmations
from orchestrator.results.scoring.configuration_scores import choose_evaluations
from orchestrator.results.scoring.evaluation_choice import select_steps
from orchestrator.results.scoring.length_groups import LengthGroups
from orchestrator.results.scoring.median_curves import Band, CurveKey, make_bands
from orchestrator.results.selection_bias import find_chosen
from orchestrator.results.summary import ConfigurationResult, Summary
from orchestrator.statistics.decades import (
    are_curves_logarithmic,
    hides_best_curves,
    is_geometric,
    is_logarithmic,
    spans_decades,
)
from orchestrator.statistics.effects.rank_effects import is_numeric
from orchestrator.statistics.intervals import MIN_FOR_MEDIAN
from orchestrator.text.wording import compact_value, format_label, shorten_keys

MAX_NUMBERS = 1_400_000  # of curves in a page, 7.5 MB; with more, training steps are left out
SHOWN_GROUPS = ("trained", "selection", "test")

Floats = npt.NDArray[np.float32]
RecordedLengths = tuple[LengthGroups, tuple[int, ...]]  # the evaluated lengths by group, and all trained ones


def make_page_data(summary: Summary, curves: pd.DataFrame) -> dict[str, Any]:
    """Return all data of the page; `curves` has all members, also of unfinished configurations."""
    # Configurations refer to groups of lengths by number.
    objective = summary.objective
    groups: dict[RecordedLengths, int] = {}
    configurations = [_describe_configuration(summary, row, groups) for row in summary.rows]
    return {
        "name": summary.name,
        "running": summary.status == "running",
        "has_fresh_seeds": has_fresh_seeds(summary),
        "has_leader": has_leader([row for row in summary.rows if row.rank is not None]),
        "min_pairs": MIN_FOR_MEDIAN,
        "confirmations": len(read_confirmations(summary)),
        "confirmed": any(confirmation.comparison is not None for confirmation in read_confirmations(summary)),
        "confirmed_pairs": [*_list_confirmed_pairs(summary)],
        "axis": summary.axis,
        "more_seeds": make_extend_command(summary),
        "judged": {
            "metric": objective.metric,
            "average": objective.average,
            "reduce": objective.reduce,
            "statistic": objective.statistic,
            "policy": objective.failed_seeds,
            "infinite": summary.infinity_text,
            "why_lost": _explain_lost(summary),
        },
        "configurations": configurations,
        "logarithmic_outcomes": [name for name in ("selection", "test") if _is_outcome_logarithmic(summary, name)],
        "groups": [_describe_lengths(*lengths) for lengths in groups],
        "table": make_cells(
            summary.rows,
            [*make_identity_columns(summary), *make_value_columns(summary), *make_result_columns(summary)],
            summary.infinity_text,
        ),
        "hyperparameters": [
            _describe_hyperparameter(summary, key, name) for key, name in shorten_keys([*summary.searched]).items()
        ],
        "effects": [*_list_effects(summary)] if shows_effects(summary) and summary.status != "running" else [],
        "chance": describe_chance(summary) if shows_effects(summary) and summary.status != "running" else "",
        "no_effects": explain_missing_effects(summary) or "",
        "pairing": _classify_pairs(summary),
        **_encode_curves(summary, curves),
    }


def _list_confirmed_pairs(summary: Summary) -> Iterator[dict[str, Any]]:
    """Yield the two configurations that each finished confirmation compares, by label, with its sentence on them."""
    for confirmation in read_confirmations(summary):
        if confirmation.comparison is not None and confirmation.name != summary.name:
            yield {
                "labels": [format_label(row.number) for row in confirmation.rows[:2]],
                "sentence": describe_confirmed_pair(confirmation),
            }


def _explain_lost(summary: Summary) -> str:
    """Return why configurations have no median: their seeds failed, or their metric is NaN without a failure."""
    undefined = [row.has_failed and not row.seeds_failed for row in summary.rows]
    if not any(undefined):
        return "no median, because seeds failed"
    has_failures = any(row.seeds_failed for row in summary.rows)
    return "no median, because seeds failed or the metric is NaN" if has_failures else "no score: the metric is NaN"


def _describe_configuration(
    summary: Summary, row: ConfigurationResult, groups: dict[RecordedLengths, int]
) -> dict[str, Any]:
    """Return the data of a configuration; adds new groups of lengths to `groups`, which numbers them."""
    measurements = summary.measurements[row.config_id]
    lengths = {
        metric: (summary.find_length_groups(row, metric), measurements.get_trained_lengths(metric))
        for metric in summary.headline
        if metric in measurements.metrics
    }

    # An infinite median is no value if it stands for failed seeds or for a threshold that was never reached.
    may_lose = row.seeds_failed or summary.objective.metric in summary.unreached_metrics
    return {
        "label": make_label(summary.state.provenance, row.number),
        "rank": row.rank,
        "seeds": [*row.seeds],
        "lost_to_first": find_chosen(summary, [summary.rows[0], row]) is summary.rows[0],
        "failed": row.seeds_failed,
        "run": row.seeds_run,
        "values": {
            name: compact_value(row.values[key])
            for key, name in shorten_keys([*summary.searched]).items()
            if key in row.values
        },
        "selection": _make_finite(row.selection_quartiles and row.selection_quartiles.median),
        "test": _make_finite(row.test_quartiles and row.test_quartiles.median),
        "without_value": [
            group
            for group, quartiles in (("selection", row.selection_quartiles), ("test", row.test_quartiles))
            if row.has_failed or (may_lose and quartiles is not None and math.isinf(quartiles.median))
        ],
        "groups": {metric: groups.setdefault(recorded, len(groups)) for metric, recorded in lengths.items()},
    }


def _describe_lengths(groups: LengthGroups, trained: tuple[int, ...]) -> dict[str, Any]:
    """Return the evaluated lengths of each group, and all `trained` ones, which ledgers of 1.0.0 lack."""
    trained = trained or groups.trained
    shown = {name: [*getattr(groups, name)] for name in SHOWN_GROUPS}
    return {**shown, "trained_on": [*trained], "trained_text": format_trained(trained, groups.trained)}


def _describe_hyperparameter(summary: Summary, key: str, name: str) -> dict[str, Any]:
    """Return name, scale and values of a searched key: all numbers or all texts, None for a missing value."""
    # A text among the values, such as `auto`, makes categories of all of them.
    values = [get_searched_value(summary, row, key, None) for row in summary.rows]
    present = [value for value in values if value is not None]
    is_number = is_numeric(present)
    numbers = np.array(present if is_number else [], dtype=float)

    # A domain such as log_uniform asks for a logarithmic axis; of others the drawn values tell whether they need one.
    return {
        "name": name,
        "log": is_number
        and (summary.searched[key].startswith("log") or spans_decades(numbers) or is_geometric(numbers)),
        "values": [value if is_number or value is None else compact_value(value) for value in values],
        "number": is_number,
    }


def _is_outcome_logarithmic(summary: Summary, name: str) -> bool:
    """Return whether the axis of an outcome is logarithmic, as in exported figures; never with a 0, which it lacks."""
    outcomes = [getattr(row, f"{name}_quartiles") for row in summary.rows]
    medians = np.array([outcome.median for outcome in outcomes if outcome is not None], dtype=float)
    return is_logarithmic(summary.objective.direction, medians) and 0.0 not in medians


def _list_effects(summary: Summary) -> Iterator[dict[str, Any]]:
    """Yield the effect of every key on every outcome, with differences between values and partial slopes."""
    names = shorten_keys([*summary.searched])
    # One entry per outcome and key; script/points.js and script/effects.js read these names.
    for outcome in list_outcomes(summary):
        for effect in outcome.effects:
            yield {
                "name": names[effect.key],
                "group": outcome.group,
                "at": outcome.lengths_text,
                "n": effect.count,
                "unit": effect.unit,
                "correlation": _encode_ends(effect.correlation, effect.low, effect.high),
                "contradicted": effect.contradicts_trend,
                "middle": _encode_ends(effect.middle.value, effect.middle.low, effect.middle.high),
                "differences": [
                    {
                        "value": f"{pair.value} - {pair.against}",
                        "ends": _encode_ends(pair.median, pair.low, pair.high),
                    }
                    for pair in effect.differences
                ],
                "slopes": [
                    {"value": slope.value, "ends": _encode_ends(slope.coefficient, slope.low, slope.high)}
                    for slope in list_slopes(summary, effect)
                ],
                "importance": _make_finite(effect.importance.share),
                "test": effect.test,
                "p": _make_finite(effect.p),
                "reason": effect.reason or "",
                "matched": effect.matched,
            }


def _classify_pairs(summary: Summary) -> dict[str, Any]:
    """Return the class of each configuration, and the pairs of classes with paired seeds.

    Configurations of a class have the same structure and code, and so draw the same numbers (`find_shared_streams`).
    The first configuration of each class represents it.
    """
    classes: dict[Any, list[ConfigurationResult]] = {}
    for row in summary.rows:
        recorded = summary.provenance[row.config_id]
        keys = recorded.structural_keys or ("program" in recorded.resolved or row.config_id)
        code = frozenset(map(repr, recorded.code.values()))
        classes.setdefault((keys, code), []).append(row)

    first = [summary.provenance[rows[0].config_id] for rows in classes.values()]
    paired = [
        [number, other_number]
        for number, other_number in combinations(range(len(first)), 2)
        if are_paired(first[number], first[other_number], partial(import_recorded, summary.state))
    ]
    class_numbers = {row.config_id: number for number, rows in enumerate(classes.values()) for row in rows}
    return {"classes": [class_numbers[row.config_id] for row in summary.rows], "paired": paired}


def _encode_curves(summary: Summary, curves: pd.DataFrame) -> dict[str, Any]:
    """Return metrics, averages, steps, and all curves as base64 of float32 in the order that script/data.js reads.

    The curves of seeds at the judged evaluation come first, in the order metric, average, configuration, seed, length.
    Then come q25, median and q75 in the order metric, average, evaluation (the judged one, then the steps),
    configuration, quartile, length. Missing numbers are NaN.
    """
    # Choose metrics, averages, and as many steps as MAX_NUMBERS allows.
    objective = summary.objective
    shown = curves[curves["metric"].isin(summary.headline) & curves["config_id"].isin(summary.by_config_id)]
    metrics = [name for name in summary.headline if name in summary.metrics]
    lengths = {name: np.unique(shown.loc[shown["metric"] == name, "length"].to_numpy()) for name in metrics}
    directions = {name: summary.get_direction(name) for name in metrics}
    averages = list(summary.averages)
    seeds = max((len(row.seeds) for row in summary.rows), default=0)
    total = sum(map(len, lengths.values())) * len(averages) * len(summary.rows)

    # Evaluation 0 is the judged one, which the page shows until a step is chosen. If it is the last step of all seeds,
    # that step is not repeated.
    chosen = shown[select_steps(shown, choose_evaluations(shown, objective))] if len(shown) else shown
    judged_steps = sorted(chosen["step"].unique().tolist())
    recorded_steps = sorted(shown["step"].unique().tolist())
    if judged_steps == recorded_steps[-1:]:
        recorded_steps = recorded_steps[:-1]
    steps = _thin_steps(recorded_steps, max(1, (MAX_NUMBERS - total * (seeds + 3)) // (3 * max(total, 1))))
    evaluations = [chosen, *(shown[shown["step"] == step] for step in steps)]
    bands_by_evaluation = [make_bands(evaluation, objective, directions) for evaluation in evaluations]

    # script/data.js reads the tables in this order.
    tables = [
        _fill_tables(summary, bands_by_evaluation, (metric, average), lengths[metric], seeds)
        for metric in metrics
        for average in averages
    ]
    seed_tables, band_tables = zip(*tables, strict=True) if tables else ((), ())

    # The medians at the judged evaluation decide whether an axis is logarithmic.
    logarithmic = dict[str, bool]()
    for number, name in enumerate(metrics):
        of_metric = slice(number * len(averages), (number + 1) * len(averages))
        medians_NL = np.concatenate([bands_ECQL[0, :, 1] for bands_ECQL in band_tables[of_metric]])
        selection_medians = medians_NL[:, np.isin(lengths[name], objective.lengths)]
        logarithmic[name] = are_curves_logarithmic("auto", directions[name], medians_NL) or hides_best_curves(
            directions[name], selection_medians, np.concatenate(seed_tables[of_metric])
        )

    # Base64 of float32 takes less space than numbers as text.
    numbers = [values.astype("<f4").tobytes() for values in (*seed_tables, *band_tables)]
    return {
        "has_values": any(np.isfinite(seeds_CSL).any() for seeds_CSL in seed_tables),
        "metrics": [
            {
                "name": name,
                "lengths": lengths[name].tolist(),
                "direction": directions[name],
                "log": logarithmic[name],
            }
            for name in metrics
        ],
        "averages": averages,
        "steps": steps,
        "judged_steps": judged_steps,
        "seeds": seeds,
        "numbers": base64.b64encode(b"".join(numbers)).decode(),
    }


def _fill_tables(
    summary: Summary,
    bands_by_evaluation: Sequence[Mapping[CurveKey, Band]],
    curve: tuple[str, str],
    lengths: npt.NDArray[Any],
    seeds: int,
) -> tuple[Floats, Floats]:
    """Return the curves of seeds (C, S, L) of the first of E evaluations, and the quartiles (E, C, 3, L) of all.

    curve: (metric, average). Missing values are NaN.
    """
    column_by_length = {int(length): column for column, length in enumerate(lengths)}
    seeds_CSL = np.full((len(summary.rows), seeds, len(column_by_length)), np.nan, dtype=np.float32)
    bands_ECQL = np.full(
        (len(bands_by_evaluation), len(summary.rows), 3, len(column_by_length)), np.nan, dtype=np.float32
    )
    for evaluation, bands in enumerate(bands_by_evaluation):
        for row_number, row in enumerate(summary.rows):
            if (band := bands.get((row.config_id, *curve))) is None:
                continue
            columns = [column_by_length[length] for length in band.lengths]
            bands_ECQL[evaluation, row_number][:, columns] = band.q25, band.median, band.q75
            for number, seed in enumerate(row.seeds) if not evaluation else ():
                if seed in band.curves_by_seed:
                    seeds_CSL[row_number, number, columns] = band.curves_by_seed[seed]
    return seeds_CSL, bands_ECQL


def _thin_steps(steps: Sequence[int], count: int) -> list[int]:
    """Return at most `count` of the steps, evenly spread, with the last step."""
    if len(steps) <= count:
        return list(steps)

    indices = np.linspace(len(steps) - 1, 0, count).round().astype(int)
    return [steps[index] for index in sorted(set(indices.tolist()))]


def _encode_ends(*numbers: float) -> list[float | str | None]:
    """Return a value and the ends of its interval for JSON: None for NaN, "inf" and "-inf" for infinite ones."""
    return [str(number) if math.isinf(number) else _make_finite(number) for number in numbers]


def _make_finite(value: float | None) -> float | None:
    """Return a number for JSON, which has neither NaN nor infinity: None for both."""
    return value if value is not None and math.isfinite(value) else None
