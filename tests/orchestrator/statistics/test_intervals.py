"""Correlations, medians and their intervals against scipy, by brute force, and where there are too few."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from orchestrator.statistics import intervals
from orchestrator.statistics.intervals import (
    Estimate,
    compute_correlation_p,
    compute_coverage,
    compute_rank_correlations,
    estimate_correlation,
    estimate_median,
    find_order_statistic,
)

inf, nan = math.inf, math.nan


@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(2, 40), st.sampled_from([1, 5, 10**6]), st.integers(1, 99))
def test_without_each_pair_in_turn_a_correlation_is_that_of_the_others(
    seed: int, samples: int, n: int, values: int, at_once: int
) -> None:
    generator = np.random.default_rng(seed)
    pairs = generator.integers(values + 1, size=(samples, n, 2)).astype(np.float64)
    pairs[pairs == 0] = -inf
    slow = np.stack([compute_rank_correlations(np.delete(pairs, left_out, axis=1)) for left_out in range(n)], axis=1)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(intervals, "MAX_COMPARISONS", at_once)
        assert np.array_equal(intervals._leave_one_out(pairs), slow, equal_nan=True)


@given(
    st.lists(st.tuples(st.integers(-5, 5) | st.just(inf), st.integers(-5, 5) | st.just(-inf)), min_size=2, max_size=20)
)
def test_spearman_is_scipys(pairs: list[tuple[float, float]]) -> None:
    x, y = np.array(pairs, dtype=np.float64).T
    estimate = estimate_correlation([*x, nan, 1.0], [*y, 1.0, nan])
    assert estimate.n == len(pairs)
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert estimate == Estimate(n=len(pairs), reason="one side is constant")
        return
    expected = stats.pearsonr(stats.rankdata(x), stats.rankdata(y)).statistic
    assert estimate.value == pytest.approx(expected, abs=1e-12)
    if len(pairs) < 8:
        assert math.isnan(estimate.low)
        assert estimate.reason == f"{len(pairs)} values are too few for an interval (at least 8)"
    elif expected > 1 - 1e-9:
        assert 0 < estimate.low < estimate.high == 1
    elif expected < -1 + 1e-9:
        assert -1 == estimate.low < estimate.high < 0
    else:
        assert estimate.reason is None and -1 < estimate.low < expected < estimate.high < 1


def test_a_correlations_interval_is_between_the_two_it_is_made_of() -> None:
    """One by one, by the formulas: Bonett and Wright's standard error, and the jackknife's, on Fisher's scale."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 12))
    estimate = estimate_correlation(x, y)
    r = stats.spearmanr(x, y).statistic
    without = [stats.spearmanr(np.delete(x, i), np.delete(y, i)).statistic for i in range(12)]
    jackknife = 11 / 12 * sum((np.arctanh(without) - np.mean(np.arctanh(without))) ** 2)
    formula = (1 + r**2 / 2) / 9
    half = stats.norm.ppf(0.975) * math.sqrt((formula + max(jackknife, 0.64 * formula)) / 2)
    ends = math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)
    assert (estimate.low, estimate.high) == pytest.approx(ends)


def test_a_value_that_stands_apart_does_not_make_the_interval_useless() -> None:
    """Scores fall in nine of ten pairs; the jackknife has more than three times the variance of the formula."""
    y = [0.86, 0.982, 0.97, 0.95, 0.92, 0.88, 0.812, 0.812, 0.812, 0.812]
    x = np.arange(10.0)
    estimate = estimate_correlation(x, y)
    r = stats.spearmanr(x, y).statistic
    without = [stats.spearmanr(np.delete(x, i), np.delete(y, i)).statistic for i in range(10)]
    formula = (1 + r**2 / 2) / 7
    assert 9 / 10 * sum((np.arctanh(without) - np.mean(np.arctanh(without))) ** 2) > 3 * formula
    half = stats.norm.ppf(0.975) * math.sqrt((formula + 3 * formula) / 2)
    ends = math.tanh(math.atanh(r) - half), math.tanh(math.atanh(r) + half)
    assert (estimate.low, estimate.high) == pytest.approx(ends)


@pytest.mark.parametrize("sign", [1, -1])
def test_pairs_of_one_order_have_an_interval_up_to_one(sign: int) -> None:
    """By the formula for two swapped neighbours; without any one pair the correlation stays 1, so it has no spread."""
    x = list(range(10))
    estimate = estimate_correlation(x, [sign * value for value in x])
    swapped = stats.spearmanr(x, [1, 0, *x[2:]]).statistic
    formula = (1 + swapped**2 / 2) / 7
    half = stats.norm.ppf(0.975) * math.sqrt((formula + 0.64 * formula) / 2)
    end = math.tanh(math.atanh(swapped) - half)
    assert sorted((estimate.low, estimate.high), key=abs) == pytest.approx([sign * end, sign])
    p = compute_correlation_p(estimate.value, estimate.low, estimate.high, 10)
    assert p == pytest.approx(2 * stats.norm.sf(math.atanh(swapped) * stats.norm.ppf(0.975) / half))


@pytest.mark.parametrize("n", [0, 1])
def test_spearman_of_too_few(n: int) -> None:
    few = "1 value is" if n == 1 else f"{n} values are"
    assert estimate_correlation([1.0] * n, [2.0] * n) == Estimate(n=n, reason=f"{few} too few for a correlation")


@pytest.mark.parametrize("n", range(6, 65))
def test_a_medians_interval_goes_with_the_sign_test(n: int) -> None:
    """It excludes 0 for as many values on one side as the sign test rejects, and no fewer."""
    order = find_order_statistic(n)
    assert order is not None and compute_coverage(n, order) >= 0.95 > compute_coverage(n, order + 1)
    for below in range(n + 1):
        interval = estimate_median([-1.0 - i for i in range(below)] + [1.0 + i for i in range(n - below)])
        assert interval.reason is None
        assert (interval.low > 0 or interval.high < 0) == (stats.binomtest(below, n).pvalue <= 0.05)


def ends(values: Iterable[float]) -> tuple[float, float]:
    return estimate_median(values).low, estimate_median(values).high


def test_the_fewest_for_a_median_are_those_of_the_sign_test() -> None:
    assert [n for n in range(1, 20) if find_order_statistic(n) is None] == [1, 2, 3, 4, 5]
    assert estimate_median([1.0, 2.0, 3.0, 4.0, 5.0]).reason == "5 values are too few for an interval (at least 6)"
    assert ends([6.0, 2.0, 3.0, 4.0, 5.0, 1.0]) == (1.0, 6.0) and ends(range(20)) == (5.0, 14.0)


def test_small_medians_say_why_there_is_no_interval() -> None:
    assert estimate_median([]).reason == "no values"
    assert estimate_median([nan]).n == 0
    few = "3 values are too few for an interval (at least 6)"
    assert estimate_median([1.0, 5.0, 2.0, nan]) == Estimate(n=3, value=2.0, reason=few)
    assert estimate_median([inf, -inf, inf, -inf]).reason == "the median is between opposite infinities"
    assert estimate_median([1.0, 2.0, 3.0, inf, inf]).value == 3.0
    assert ends([4.0] * 6) == (4.0, 4.0) and ends([1.0, 2.0, 3.0, 4.0, inf, inf]) == (1.0, inf)


@pytest.mark.parametrize("n", [8, 9, 12])
def test_one_swap_in_a_perfect_order_has_an_interval_far_from_zero(n: int) -> None:
    """The order without one of the two is perfect; the jackknife must not take that for infinitely far away."""
    swapped = [1.0, 0.0, *map(float, range(2, n))]
    estimate = estimate_correlation(list(map(float, range(n))), swapped)
    assert estimate.value > 0.97 and estimate.low > 0.8
