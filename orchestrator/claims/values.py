"""The arms of a claim: which configurations each one is, and one value for each of their seeds."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from orchestrator.claims.members import Members
from orchestrator.errors import UserError
from search_spaces import ABSENT
from search_spaces.grammar.claims import Arm, Claim, Learned

UNIT = ["rest", "seed"]
"""What makes two rows of two arms a pair: what else was searched (empty for a single configuration), and the seed."""


@dataclass(frozen=True, kw_only=True)
class ArmValues:
    """One arm: `lengths` has (rest, seed) by length, `values` one number a row, `learned` whether that seed counts.

    `rests` has, by config_id, what makes its rows pairs with those of another arm beside the seed.
    """

    name: str
    rests: Mapping[str, str]
    average: str
    lengths: pd.DataFrame
    values: "pd.Series[float]"
    learned: "pd.Series[bool]"

    @property
    def config_ids(self) -> tuple[str, ...]:
        """The configurations."""
        return tuple(self.rests)

    @property
    def seeds(self) -> int:
        """How many seeds there are."""
        return int(self.values.index.get_level_values("seed").nunique())

    @property
    def seeds_learned(self) -> int:
        """How many seeds have learned the task, in every configuration of the arm."""
        return int(self.learned.groupby(level="seed").all().sum())


def read_arms(claim: Claim, members: Members) -> dict[str, ArmValues]:
    """Return the compared arms of a claim, by name.

    Raises UserError where a value, metric, average or length is not in the sweep.
    """
    keys = {key for arm in claim.arms.values() for key in arm.where}
    return {name: _read_arm(claim, name, members, keys) for name in claim.compare}


def _read_arm(claim: Claim, name: str, members: Members, keys: set[str]) -> ArmValues:
    arm = claim.arms[name]
    config_ids = members.find_configurations(arm.where)
    average = _choose_average(arm.average or claim.average, members, config_ids)
    if arm.configurations == "best":
        config_ids = [members.best_configuration(config_ids, average)]
    rests = {one: "" if arm.configurations == "best" else _rest(members, one, keys) for one in config_ids}
    if len(set(rests.values())) < len(rests):
        raise UserError(
            f"sweep {members.name}: configurations of {name} differ in nothing but the arms' own keys; "
            "name one value of each key in `where`"
        )
    table = _by_unit(_lengths_of(claim, arm, members, config_ids, average), rests)
    learned = pd.Series(True, index=table.index)
    if claim.learned is not None:
        judged = _judge(claim.learned, claim, members, config_ids, average)
        learned = _by_unit(judged, rests)["learned"].astype(bool)
    if arm.minus is not None:
        other = _read_arm(claim, arm.minus, members, keys)
        learned &= other.learned.reindex(learned.index, fill_value=False)
        if list(other.lengths.columns) == list(table.columns):
            table = table - other.lengths.reindex(table.index)
        else:
            table = table.sub(other.values.reindex(table.index), axis=0)
    values = _reduce(table, arm.reduce or claim.reduce)
    if arm.over is not None:
        other = _read_arm(claim, arm.over, members, keys)
        learned &= other.learned.reindex(learned.index, fill_value=False)
        values = values / other.values.reindex(values.index)
    return ArmValues(name=name, rests=rests, average=average, lengths=table, values=values, learned=learned)


def _lengths_of(claim: Claim, arm: Arm, members: Members, config_ids: list[str], average: str) -> pd.DataFrame:
    """Members of an arm by the lengths it is taken at."""
    metrics, lengths = arm.metric or claim.metric, arm.lengths if arm.lengths is not None else claim.lengths
    table = members.table(metrics, average, claim.evaluation)
    wanted = members.resolve_lengths(lengths, metrics, config_ids)
    return table[table.index.get_level_values("config_id").isin(config_ids)][wanted]


def _choose_average(averages: tuple[str, ...], members: Members, config_ids: list[str]) -> str:
    """The average with the best median of the objective's metric at the selection lengths."""
    if len(averages) == 1:
        return averages[0]
    judged = members.objective

    def median(average: str) -> float:
        table = members.table((judged.metric,), average, judged.evaluation)[list(judged.lengths)]
        return float(table[table.index.get_level_values("config_id").isin(config_ids)].mean(axis=1).median())

    return (min if judged.direction == "minimize" else max)(averages, key=median)


def _judge(rule: Learned, claim: Claim, members: Members, config_ids: list[str], average: str) -> pd.DataFrame:
    """Whether each member of an arm has learned the task; one that failed has not."""
    judged = Arm(metric=rule.metric, lengths=rule.lengths)
    table = _lengths_of(claim, judged, members, config_ids, rule.average or average)
    return passes(rule, _reduce(table, rule.reduce)).to_frame("learned")


def passes(rule: Any, values: "pd.Series[float]") -> "pd.Series[bool]":
    """Whether each value reaches a threshold; NaN does not."""
    return values >= rule.least if rule.least is not None else values <= rule.most


def _reduce(table: pd.DataFrame, how: str) -> "pd.Series[float]":
    """One value a member; NaN where any length has none, because the member failed."""
    reduced = {"mean": table.mean, "min": table.min, "max": table.max}[how](axis=1)
    return reduced.where(~table.isna().any(axis=1), np.nan)


def _by_unit(table: pd.DataFrame, rests: Mapping[str, str]) -> pd.DataFrame:
    """The same rows by what they are paired by."""
    names, seeds = (table.index.get_level_values(level) for level in ("config_id", "seed"))
    found = table.copy()
    found.index = pd.MultiIndex.from_arrays([[rests[str(name)] for name in names], seeds], names=UNIT)
    return found


def _rest(members: Members, config_id: str, keys: set[str]) -> str:
    """The searched values of a configuration that no arm names, as text."""
    values: Mapping[str, Any] = members.state.configurations[config_id].values
    rest = {key: value for key, value in values.items() if key not in keys and value is not ABSENT}
    return json.dumps(rest, sort_keys=True, default=str)
