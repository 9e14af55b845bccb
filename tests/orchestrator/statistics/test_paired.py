"""Pairs of scores of the same members against scipy, and pairings too small for a test."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from orchestrator.statistics.effects.paired import compare_members

inf, nan = math.inf, math.nan


def members(values: list[list[float]]) -> pd.Series:
    pairs = [(f"c{c}", s) for c, row in enumerate(values) for s in range(len(row))]
    index = pd.MultiIndex.from_tuples(pairs, names=["config_id", "seed"])
    return pd.Series(list(itertools.chain(*values)), index=index, dtype=np.float64)


def test_paired_against_scipy() -> None:
    rng = np.random.default_rng(0)
    first = members(rng.normal(size=(6, 5)).tolist())
    second = first + 0.3 + 0.5 * rng.normal(size=30)
    second.iloc[3] = nan
    result = compare_members(first.to_dict(), second.iloc[::-1].to_dict())  # matched by label, not by place
    difference = (first - second).dropna()
    assert (result.members, result.n, result.dropped, result.ties) == (29, 6, 1, 0)
    assert result.unit == "configurations"
    assert result.difference == difference.groupby(level=0).median().median()
    assert (result.q25, result.q75) == tuple(np.quantile(difference, [0.25, 0.75]))
    of_configurations = difference.groupby(level=0).median()
    assert result.wilcoxon_p == pytest.approx(stats.wilcoxon(of_configurations).pvalue)
    below = int((difference < 0).sum())
    assert (result.better, result.worse) == (below, 29 - below)
    assert result.sign_p == pytest.approx(stats.binomtest(int((of_configurations < 0).sum()), 6).pvalue)
    of_each = difference.groupby(level=0).median()
    assert (result.low, result.high) == (of_each.min(), of_each.max())
    assert result.reason is None


@pytest.mark.parametrize(
    ("first", "second", "n", "reason"),
    [
        ([[]], [[]], 0, "no member has both scores"),
        ([[nan, 1.0]], [[1.0, nan]], 0, "no member has both scores"),
        ([[1.0, 2.0]], [[1.0, 2.0]], 2, "no member differs"),
        ([[inf], [1.0], [2.0]], [[inf], [1.0], [2.0]], 3, "no member differs"),
        ([[1.0]], [[2.0]], 1, "n = 1 is too few for an interval (at least 6)"),
        ([[1.0, inf, -inf, 3.0]], [[2.0, 1.0, 4.0, 3.0]], 4, "n = 1 is too few for an interval (at least 6)"),
    ],
)
def test_small_pairings_say_why(first: list[list[float]], second: list[list[float]], n: int, reason: str) -> None:
    result = compare_members(members(first).to_dict(), members(second).to_dict())
    assert (result.members, result.reason) == (n, reason)
    assert math.isnan(result.low)
    assert math.isnan(result.wilcoxon_p) and math.isnan(result.sign_p)


def test_more_seeds_make_a_pairing_no_surer() -> None:
    few, many = (
        compare_members(members([[0.0] * s] * 3).to_dict(), members([[1.0] * s] * 3).to_dict()) for s in (1, 50)
    )
    assert few.sign_p == many.sign_p == pytest.approx(0.25) and few.wilcoxon_p == many.wilcoxon_p


def test_a_unit_with_opposite_infinities_has_no_difference() -> None:
    first, second = members([[100.0, inf]] * 6 + [[1.0, 1.0]] * 6), members([[inf, 100.0]] * 6 + [[2.0, 2.0]] * 6)
    for one, other, sign in ((first, second, -1.0), (second, first, 1.0)):
        result = compare_members(one.to_dict(), other.to_dict())
        assert (result.n, result.difference, result.low, result.high) == (6, sign, sign, sign)
