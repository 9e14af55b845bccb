"""Collect the data of the page of a sweep as a JSON object, which page.js draws."""

import base64
import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from orchestrator.record.kept.code import import_recorded
from orchestrator.report.tables.columns import make_cells
from orchestrator.report.tables.configurations import identity_columns, result_columns, value_columns
from orchestrator.report.tables.effects import list_outcomes
from orchestrator.results.analysis import shows_effects, why_no_effects
from orchestrator.results.comparing.shared_streams import are_paired
from orchestrator.results.outcomes import searched_value
from orchestrator.results.scoring.evaluation_choice import select_steps
from orchestrator.results.scoring.length_groups import LengthGroups
from orchestrator.results.scoring.median_curves import make_bands
from orchestrator.results.scoring.objective import choose_evaluations
from orchestrator.results.summary import Row, Summary
from orchestrator.statistics.decades import is_geometric, is_logarithmic, spans_decades
from orchestrator.text.wording import compact_value, label, short_keys

MOST_NUMBERS = 1_400_000  # of curves in a page, 7.5 MB; with more, training steps are left out
GROUPS = ("trained", "selection", "test")

Floats = npt.NDArray[np.float32]


def page_data(result: Summary, curves: pd.DataFrame) -> dict[str, Any]:
    """Return all data of the page; `curves` are those of all members, also of unfinished configurations."""
    # Configurations refer to groups of lengths by number.
    objective = result.objective
    groups: dict[LengthGroups, int] = {}
    configurations = [_configuration(result, row, groups) for row in result.rows]
    return {
        "name": result.name,
        "folder": str(result.folder),
        "running": result.status == "running",
        "axis": result.axis,
        "judged": {
            "metric": objective.metric,
            "average": objective.average,
            "reduce": objective.reduce,
            "statistic": objective.statistic,
            "policy": objective.failed_seeds,
            "infinite": result.infinity_text,
        },
        "configurations": configurations,
        "groups": [{name: [*getattr(lengths, name)] for name in GROUPS} for lengths in groups],
        "table": make_cells(
            result.rows,
            [*identity_columns(result), *value_columns(result), *result_columns(result)],
            result.infinity_text,
        ),
        "hyperparameters": [_hyperparameter(result, key, name) for key, name in short_keys([*result.searched]).items()],
        "effects": [*_effects(result)] if shows_effects(result) and result.status != "running" else [],
        "no_effects": why_no_effects(result) or "",
        "pairing": _pairing(result),
        **_curves(result, curves),
    }


def _configuration(result: Summary, row: Row, groups: dict[LengthGroups, int]) -> dict[str, Any]:
    """Return the data of a configuration; adds new groups of lengths to `groups`, which numbers them."""
    metrics = [metric for metric in result.headline if metric in result.measured[row.config_id].metrics]
    return {
        "label": label(row.number),
        "rank": row.rank,
        "state": "" if row.rank else row.why_unranked,
        "seeds": [*row.seeds],
        "failed": row.seeds_failed,
        "run": row.seeds_run,
        "values": {
            name: compact_value(row.values[key])
            for key, name in short_keys([*result.searched]).items()
            if key in row.values
        },
        "selection": _finite(row.selection and row.selection.median),
        "test": _finite(row.test and row.test.median),
        "groups": {metric: groups.setdefault(result.groups(row, metric), len(groups)) for metric in metrics},
    }


def _hyperparameter(result: Summary, key: str, name: str) -> dict[str, Any]:
    """Return name, scale and values of a searched key: all numbers or all texts, None for a missing value."""
    values = [searched_value(result, row, key, None) for row in result.rows]
    known = [value for value in values if value is not None]
    is_number = all(isinstance(value, int | float) and not isinstance(value, bool) for value in known)
    numbers = np.array(known if is_number else [], dtype=float)
    return {
        "name": name,
        "log": is_number
        and (result.searched[key].startswith("log") or spans_decades(numbers) or is_geometric(numbers)),
        "values": [value if is_number or value is None else compact_value(value) for value in values],
        "number": is_number,
    }


def _effects(result: Summary) -> Iterator[dict[str, Any]]:
    """Yield the effect of every key on every outcome, with differences between values and partial slopes."""
    names = short_keys([*result.searched])
    for outcome in list_outcomes(result):
        for effect in outcome.effects:
            yield {
                "name": names[effect.key],
                "group": outcome.group,
                "at": outcome.at_lengths,
                "n": effect.count,
                "unit": effect.unit,
                "correlation": _ends(effect.correlation, effect.low, effect.high),
                "differences": [
                    {"value": f"{pair.value} - {pair.against}", "ends": _ends(pair.difference, pair.low, pair.high)}
                    for pair in effect.differences
                ],
                "slopes": [
                    {"value": slope.value, "ends": _ends(slope.coefficient, slope.low, slope.high)}
                    for slope in effect.partial.slopes
                ],
                "importance": _finite(effect.importance.share),
                "test": effect.test,
                "p": _finite(effect.p),
                "reason": effect.reason or "",
                "alone": effect.matched,
            }


def _pairing(result: Summary) -> dict[str, Any]:
    """Return the class of each configuration, and the pairs of classes with paired seeds.

    Members of one structure and one code draw the same numbers (`shared_streams`), so classes are compared by their
    first configurations.
    """
    classes: dict[Any, list[Row]] = {}
    for row in result.rows:
        recorded = result.recorded[row.config_id]
        keys = recorded.structural_keys or ("program" in recorded.resolved or row.config_id)
        code = frozenset(map(repr, recorded.code.values()))
        classes.setdefault((keys, code), []).append(row)
    first = [result.recorded[rows[0].config_id] for rows in classes.values()]
    paired = [
        [number, other_number]
        for number, other_number in combinations(range(len(first)), 2)
        if are_paired(first[number], first[other_number], partial(import_recorded, result.state))
    ]
    class_of = {row.config_id: number for number, rows in enumerate(classes.values()) for row in rows}
    return {"classes": [class_of[row.config_id] for row in result.rows], "paired": paired}


def _curves(result: Summary, curves: pd.DataFrame) -> dict[str, Any]:
    """Return metrics, averages, steps, and all curves as base64 of float32 in the order that page.js reads.

    First the seeds at the judged evaluation: metric, average, configuration, seed, length. Then q25, median and q75:
    metric, average, judged evaluation and steps, configuration, quartile, length. NaN is a missing number.
    """
    # Metrics, averages, and as many steps as MOST_NUMBERS allows.
    objective, row_numbers = result.objective, {row.config_id: row_number for row_number, row in enumerate(result.rows)}
    shown = curves[curves["metric"].isin(result.headline) & curves["config_id"].isin(row_numbers)]
    metrics = [name for name in result.headline if name in result.metrics]
    lengths = {name: np.unique(shown.loc[shown["metric"] == name, "length"].to_numpy()) for name in metrics}
    directions = {name: result.direction(name) for name in metrics}
    averages, seeds = list(result.averages), max((len(row.seeds) for row in result.rows), default=0)
    total = sum(map(len, lengths.values())) * len(averages) * len(row_numbers)
    steps = _thin(
        sorted(shown["step"].unique().tolist()), max(1, (MOST_NUMBERS - total * (seeds + 3)) // (3 * max(total, 1)))
    )

    chosen = shown[select_steps(shown, choose_evaluations(shown, objective))] if len(shown) else shown
    evaluations = [chosen, *(shown[shown["step"] == step] for step in steps)]
    bands_by_evaluation = [make_bands(evaluation, objective, directions) for evaluation in evaluations]

    # One table of seeds and one of quartiles for every metric and average, NaN where a value is missing.
    of_seeds, of_bands = list[Floats](), list[Floats]()
    for metric in metrics:
        known = {int(length): column for column, length in enumerate(lengths[metric])}
        for average in averages:
            seeds_CSL = np.full((len(row_numbers), seeds, len(known)), np.nan, dtype=np.float32)
            bands_ECQL = np.full((len(evaluations), len(row_numbers), 3, len(known)), np.nan, dtype=np.float32)
            for evaluation, bands in enumerate(bands_by_evaluation):
                for row in result.rows:
                    if (band := bands.get((row.config_id, metric, average))) is None:
                        continue
                    row_number, columns = row_numbers[row.config_id], [known[length] for length in band.lengths]
                    bands_ECQL[evaluation, row_number][:, columns] = band.q25, band.median, band.q75
                    for number, seed in enumerate(row.seeds) if not evaluation else ():
                        if seed in band.seeds:
                            seeds_CSL[row_number, number, columns] = band.seeds[seed]
            of_seeds.append(seeds_CSL)
            of_bands.append(bands_ECQL)

    # The medians at the judged evaluation decide whether an axis is logarithmic.
    medians = {
        name: np.concatenate(
            [bands_ECQL[0, :, 1].ravel() for bands_ECQL in of_bands[number * len(averages) :][: len(averages)]]
        )
        for number, name in enumerate(metrics)
    }
    numbers = [values.astype("<f4").tobytes() for values in (*of_seeds, *of_bands)]
    return {
        "metrics": [
            {
                "name": name,
                "lengths": lengths[name].tolist(),
                "direction": directions[name],
                "log": is_logarithmic("auto", directions[name], medians[name]),
            }
            for name in metrics
        ],
        "averages": averages,
        "steps": steps,
        "seeds": seeds,
        "numbers": base64.b64encode(b"".join(numbers)).decode(),
    }


def _thin(steps: Sequence[int], most: int) -> list[int]:
    """Return at most `most` of the steps, evenly spread, with the last step."""
    if len(steps) <= most:
        return list(steps)
    numbers = np.linspace(len(steps) - 1, 0, most).round().astype(int)
    return [steps[index] for index in sorted(set(numbers.tolist()))]


def _ends(*numbers: float) -> list[float | None]:
    return [*map(_finite, numbers)]


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
