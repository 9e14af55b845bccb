"""Compute the arms of a claim: their configurations, and a value for each seed."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from orchestrator.claims.sweep_curves import SweepCurves
from orchestrator.errors import UserError
from orchestrator.results.scoring.configuration_scores import meets_threshold
from orchestrator.statistics.quartiles import Floats
from search_spaces import ABSENT
from search_spaces.grammar.claims import Claim, Lengths, Names, SeedThreshold

Rows = TypeVar("Rows", pd.Series, pd.DataFrame)
PAIR_LEVELS = ["context", "seed"]
"""The index levels of an arm's rows: the other searched values as text, and the seed; equal in paired rows."""


@dataclass(frozen=True, kw_only=True)
class ArmValues:
    """The values of an arm, in rows by context and seed; rows of two arms with the same context and seed are pairs."""

    name: str
    contexts: Mapping[str, str]  # the other searched values as text, by config_id
    average: str
    lengths: pd.DataFrame  # a value for each row and length
    values: "pd.Series[float]"  # one number for each row
    is_learned: "pd.Series[bool]"
    direction: str  # the better one; "none" for values relative to another arm
    # Whether at some length the value is within the claim's no-effect bound of 0 or 1; always False for metrics with
    # values outside [0, 1].
    is_at_floor: "pd.Series[bool]"
    is_at_ceiling: "pd.Series[bool]"

    @property
    def config_ids(self) -> tuple[str, ...]:
        """The config_ids of the arm."""
        return tuple(self.contexts)

    @property
    def seeds(self) -> int:
        """The number of seeds."""
        return int(self.values.index.get_level_values("seed").nunique())

    @property
    def seeds_learned(self) -> int:
        """The number of seeds that learned the task in every configuration of the arm."""
        return int(self.is_learned.groupby(level="seed").all().sum())


def compute_arms(claim: Claim, sweep: SweepCurves) -> dict[str, ArmValues]:
    """Return the compared arms of a claim by name.

    Raises UserError for a value, metric, average or length that the sweep lacks.
    """
    keys = {key for arm in claim.arms.values() for key in arm.where}
    return {name: _compute_arm(claim, name, sweep, keys) for name in claim.compare}


def _compute_arm(claim: Claim, name: str, sweep: SweepCurves, keys: set[str]) -> ArmValues:
    """Return the values of an arm, relative to its other arms; `keys` are the keys that define arms."""
    # Configurations of two arms are paired by their contexts; the best ones are paired whatever their values.
    arm = claim.arms[name]
    config_ids = sweep.find_configurations(arm.where)
    averages = arm.average or claim.average
    average = averages[0] if len(averages) == 1 else sweep.choose_average(averages, config_ids)
    if arm.configurations == "best":
        config_ids = [sweep.choose_configuration(config_ids, average)]
    contexts = {
        config_id: "" if arm.configurations == "best" else _describe_context(sweep, config_id, keys)
        for config_id in config_ids
    }
    if len(set(contexts.values())) < len(contexts):
        raise UserError(
            f"sweep {sweep.name}: configurations of {name} differ only in the keys that define arms; "
            "set one value of each in `where`"
        )

    # Make the masks before another arm is subtracted, because differences do not end at 0 and 1.
    metrics = arm.metric or claim.metric
    lengths = claim.lengths if arm.lengths is None else arm.lengths
    table = read_arm_table(sweep, contexts, metrics, average, lengths, claim.evaluation)
    is_learned = _mask_learned(claim, sweep, contexts, average, table.index)
    is_at_floor, is_at_ceiling = _mask_saturated(table, claim, sweep.make_table(metrics, average, claim.evaluation))

    # Differences are taken at every length, ratios only after the lengths are reduced.
    if arm.minus is not None:
        subtracted = _compute_arm(claim, arm.minus, sweep, keys)
        is_learned &= _align_rows(subtracted, subtracted.is_learned, table.index, fill=False)
        if claim.arms[arm.minus].over is None and list(subtracted.lengths.columns) == list(table.columns):
            table = subtract_values(table, _align_rows(subtracted, subtracted.lengths, table.index))
        else:
            values = _align_rows(subtracted, subtracted.values, table.index)
            table = table.apply(lambda column: subtract_values(column, values))
    values = _reduce_lengths(table, arm.reduce or claim.reduce)
    if arm.over is not None:
        divisor = _compute_arm(claim, arm.over, sweep, keys)
        is_learned &= _align_rows(divisor, divisor.is_learned, values.index, fill=False)
        values = divide_values(values, _align_rows(divisor, divisor.values, values.index))

    # Differences and ratios have no better direction.
    direction = "none" if arm.minus or arm.over else sweep.choose_direction(metrics)
    return ArmValues(
        name=name,
        contexts=contexts,
        average=average,
        lengths=table,
        values=values,
        is_learned=is_learned,
        direction=direction,
        is_at_floor=is_at_floor,
        is_at_ceiling=is_at_ceiling,
    )


def _mask_learned(
    claim: Claim, sweep: SweepCurves, contexts: Mapping[str, str], average: str, index: "pd.Index[Any]"
) -> "pd.Series[bool]":
    """Return a mask of the rows whose seeds learned the task; all of `index` without a rule."""
    rule = claim.learned
    if rule is None:
        return pd.Series(True, index=index)
    table = read_arm_table(sweep, contexts, rule.metric, rule.average or average, rule.lengths, claim.evaluation)
    return reaches_threshold(rule, _reduce_lengths(table, rule.reduce))


def _mask_saturated(
    table: pd.DataFrame, claim: Claim, all_values: pd.DataFrame
) -> tuple["pd.Series[bool]", "pd.Series[bool]"]:
    """Return two masks: rows within the no-effect bound of 0 at some length, and rows within it of 1.

    `all_values` has the values of all configurations; 0 and 1 are its ends only if no value is beyond them.
    """
    bound = claim.within if claim.question == "equivalence" else claim.no_effect_bound
    no_rows = pd.Series(False, index=table.index)
    if bound is None:
        return no_rows, no_rows

    values = all_values.to_numpy()
    floor = (table <= bound).any(axis=1) if np.nanmin(values, initial=0.0) >= 0 else no_rows
    ceiling = (table >= 1 - bound).any(axis=1) if np.nanmax(values, initial=1.0) <= 1 else no_rows
    return floor, ceiling


def replace_failed_by_worst(arms: list[ArmValues]) -> list[ArmValues]:
    """Return the arms with failed and unlearned seeds set to the worst value of any seed of these arms.

    Values without a better direction are unchanged.
    """
    # Values relative to another arm have no better direction, so none of them is the worst.
    directions = {arm.direction for arm in arms}
    if len(directions) != 1 or "none" in directions:
        return arms

    values = np.concatenate([arm.values.dropna().to_numpy() for arm in arms])
    if not len(values):
        return arms
    worst = values.max() if "minimize" in directions else values.min()
    return [replace(arm, values=arm.values.where(arm.is_learned & arm.values.notna(), worst)) for arm in arms]


def compute_saturated_share(arms: list[ArmValues]) -> float:
    """Return the share of seeds with saturated pairs in at least half of their configurations.

    A pair is saturated if both values are at the same end of the metric, or both seeds did not learn the task.
    """
    first, second = arms

    is_unlearned = ~_combine_masks(first.is_learned, second.is_learned, "or")
    is_at_end = _combine_masks(first.is_at_floor, second.is_at_floor, "and") | _combine_masks(
        first.is_at_ceiling, second.is_at_ceiling, "and"
    )
    is_saturated = is_at_end | is_unlearned
    return float((is_saturated.groupby(level="seed").mean() >= 0.5).mean()) if len(is_saturated) else 0.0


def _combine_masks(first: "pd.Series[bool]", second: "pd.Series[bool]", operator: str) -> "pd.Series[bool]":
    """Return the masks combined by "and" or "or", at the rows that both have."""
    joined = pd.concat([first, second], axis=1, join="inner")
    return joined.any(axis=1) if operator == "or" else joined.all(axis=1)


def _align_rows(other: ArmValues, rows: Rows, index: "pd.Index[Any]", fill: Any = math.nan) -> Rows:
    """Return the rows of another arm at `index`, matched by seed alone if that arm has a single configuration."""
    # A single configuration, such as a common baseline, is compared with every context.
    if len(other.contexts) > 1:
        return rows.reindex(index, fill_value=fill)
    aligned = rows.droplevel("context").reindex(index.get_level_values("seed"), fill_value=fill)
    return aligned.set_axis(index)


def read_arm_table(
    sweep: SweepCurves, contexts: Mapping[str, str], metrics: Names, average: str, lengths: Lengths, evaluation: str
) -> pd.DataFrame:
    """Return the values of the configurations in `contexts`: rows by context and common seed, columns by length.

    A configuration may have additional seeds after an extension, which are left out.
    """
    columns = sweep.resolve_lengths(lengths, metrics, list(contexts))
    table = sweep.make_table(metrics, average, evaluation)[columns]
    rows = table[table.index.get_level_values("config_id").isin(contexts)]

    config_ids, seeds = (rows.index.get_level_values(level) for level in ("config_id", "seed"))
    row_contexts = [contexts[str(config_id)] for config_id in config_ids]
    rows = rows.set_axis(pd.MultiIndex.from_arrays([row_contexts, seeds], names=PAIR_LEVELS))
    rows_per_seed = rows.groupby(level="seed")[rows.columns[0]].transform("size")
    return rows[rows_per_seed == len(contexts)]


def reaches_threshold(rule: SeedThreshold, values: "pd.Series[float]") -> "pd.Series[bool]":
    """Return whether each value reaches a threshold, up to rounding; False for NaN."""
    if rule.least is not None:
        return meets_threshold(values, rule.least, "maximize")
    assert rule.most is not None, "the loader requires one of them"
    return meets_threshold(values, rule.most, "minimize")


def _reduce_lengths(table: pd.DataFrame, statistic: str) -> "pd.Series[float]":
    """Return the mean, min or max over lengths of each row; NaN if a length is missing, because the member failed."""
    # pandas would skip NaN, and so favour a member that failed early.
    reduced = {"mean": table.mean, "min": table.min, "max": table.max}[statistic](axis=1)
    return reduced.where(~table.isna().any(axis=1), np.nan)


def _describe_context(sweep: SweepCurves, config_id: str, keys: set[str]) -> str:
    """Return the searched values of a configuration, except the arms' own `keys`, as text."""
    values: Mapping[str, Any] = sweep.state.configurations[config_id].values
    context = {key: value for key, value in values.items() if key not in keys and value is not ABSENT}
    return json.dumps(context, sort_keys=True, default=str)


def pair_arms(arms: list[ArmValues]) -> tuple["pd.Series[float]", "pd.Series[float]"]:
    """Return the paired values of two arms; NaN for failed members.

    Raises UserError if a configuration has no partner in the other arm.
    """
    first, second = (arm.values for arm in arms)
    pairs = pd.concat([first, second], axis=1, join="inner", keys=["first", "second"])

    # Every context must be in both arms, else a configuration would be dropped silently.
    contexts = [set(arm.contexts.values()) for arm in arms]
    if contexts[0] != contexts[1]:
        raise UserError(
            f"the configurations of {arms[0].name} and {arms[1].name} cannot be paired: their other "
            f"searched values differ: {' and '.join(sorted(contexts[0] ^ contexts[1])[:2])}; set them in `where`"
        )
    return pairs["first"], pairs["second"]


def subtract_values(first: Rows, second: Rows) -> Rows:
    """Return first - second; 0 for equal values, also infinite ones."""
    with np.errstate(invalid="ignore"):
        return (first - second).where(first != second, 0.0)


def divide_values(first: "pd.Series[float]", second: "pd.Series[float]") -> "pd.Series[float]":
    """Return first / second; 1 for equal values, also if both are 0 or infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return (first / second).where(first != second, 1.0)


def compute_configuration_medians(rows: "pd.Series[float]") -> Floats:
    """Return the median over seeds of each configuration; a configuration with a failed member is left out."""
    return _compute_medians(rows, "context")


def compute_seed_medians(rows: "pd.Series[float]") -> Floats:
    """Return the median over configurations of each seed; a seed with a failed member is left out."""
    return _compute_medians(rows, "seed")


def _compute_medians(rows: "pd.Series[float]", level: str) -> Floats:
    """Return the median of each group of rows with the same value of an index level; a group with NaN is left out."""
    groups = [group.to_numpy(dtype=np.float64) for _, group in rows.groupby(level=level, sort=True)]
    return np.array([float(np.median(group)) for group in groups if not np.isnan(group).any()])
