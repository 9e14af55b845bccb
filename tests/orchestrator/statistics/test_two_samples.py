"""Two configurations over their seeds: what does not change, what failed seeds do, how often intervals cover."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from orchestrator.statistics.two_samples import TwoSamples, compare_groups, subtract_pairs, summarize_differences

inf = math.inf
PAIRS = st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), min_size=1, max_size=12)
WITH_INFINITE = st.sampled_from([0.0, 1.0, 2.5, inf])


def compare_pairs(first: np.ndarray, second: np.ndarray) -> TwoSamples:
    return summarize_differences(subtract_pairs(first, second))


def test_a_comparison_of_pairs_by_hand() -> None:
    first = np.array([0.1, 0.5, 0.3, 0.9, 0.2, 0.7])
    second = np.array([0.3, 0.4, 0.7, 1.9, 0.2, 1.0])
    comparison = compare_pairs(first, second)
    assert (comparison.n, comparison.n_second, comparison.paired) == (6, None, True)
    assert comparison.difference == pytest.approx(-0.25)
    assert comparison.mean == pytest.approx(-1.8 / 6)
    assert (comparison.low, comparison.high) == pytest.approx((-1.0, 0.1))
    assert comparison.level == pytest.approx(1 - 2 / 64)
    assert (comparison.first_smaller_count, comparison.second_smaller_count, comparison.ties) == (4, 1, 1)
    assert comparison.p == stats.binomtest(2, 6).pvalue  # the tie counts against the four
    assert comparison.smallest_p == 2**-5
    assert comparison.reason is None


@settings(max_examples=100)
@given(st.lists(st.integers(-2, 5), min_size=6, max_size=40))
def test_p_and_interval_never_contradict_each_other(differences: list[int]) -> None:
    comparison = compare_pairs(np.array(differences, dtype=float), np.zeros(len(differences)))
    assert (comparison.p <= 0.05) == (comparison.low > 0 or comparison.high < 0)
    if 0 not in differences:
        assert comparison.p == pytest.approx(
            stats.binomtest(sum(difference < 0 for difference in differences), comparison.n).pvalue
        )


def same(first: TwoSamples, second: TwoSamples) -> bool:
    """Whether two comparisons are equal but for rounding."""
    numbers = [[value for value in vars(of).values() if isinstance(value, float)] for of in (first, second)]
    return numbers[0] == pytest.approx(numbers[1], nan_ok=True) and first.reason == second.reason


@settings(max_examples=40)
@given(PAIRS, st.integers(-50, 50), st.randoms())
def test_swapping_flips_signs_and_neither_order_nor_a_common_shift_matters(pairs, shift, random) -> None:  # type: ignore[no-untyped-def]
    x, y = np.array(pairs, dtype=float).T
    for compare in (compare_pairs, compare_groups):
        comparison, swapped = compare(x, y), compare(y, x)
        assert (swapped.difference, swapped.mean) == pytest.approx((-comparison.difference, -comparison.mean))
        assert (swapped.p, swapped.smallest_p) == pytest.approx((comparison.p, comparison.smallest_p))
        assert swapped.first_smaller_count == comparison.second_smaller_count
        assert swapped.second_smaller_count == comparison.first_smaller_count
        if not math.isnan(comparison.low):
            assert (swapped.low, swapped.high) == (-comparison.high, -comparison.low)
        moved = compare(x + shift, y + shift)
        assert same(moved, comparison)
        if compare is compare_pairs:  # a constant on one side moves the difference and its ends by it
            moved = compare(x + shift, y)
            assert moved.difference == comparison.difference + shift
            interval = (comparison.low + shift, comparison.high + shift)
            assert math.isnan(comparison.low) or (moved.low, moved.high) == interval
    shuffled = random.sample(pairs, len(pairs))
    assert same(compare_pairs(*np.array(shuffled, dtype=float).T), compare_pairs(x, y))


@settings(max_examples=40)
@given(st.lists(st.tuples(WITH_INFINITE, WITH_INFINITE), min_size=1, max_size=9))
def test_infinite_differences_rank_and_never_become_nan(pairs: list[tuple[float, float]]) -> None:
    x, y = np.array(pairs).T
    comparison, swapped = compare_pairs(x, y), compare_pairs(y, x)
    assert comparison.p == pytest.approx(swapped.p) and comparison.first_smaller_count == swapped.second_smaller_count
    assert math.isnan(comparison.difference) or comparison.difference == -swapped.difference
    assert comparison.ties == sum(first == second for first, second in pairs)
    finite = np.nan_to_num(x, posinf=1e30), np.nan_to_num(y, posinf=1e30)
    assert comparison.p == pytest.approx(compare_pairs(*finite).p)  # infinite is only very large
    groups = compare_groups(x, y)
    assert groups.p == pytest.approx(compare_groups(*finite).p)


@pytest.mark.parametrize("n", range(1, 6))
def test_few_pairs_have_no_interval_and_say_so(n: int) -> None:
    comparison = compare_pairs(np.zeros(n), np.arange(1.0, n + 1))
    assert math.isnan(comparison.low) and math.isnan(comparison.level)
    few = "1 pair of seeds is" if n == 1 else f"{n} pairs of seeds are"
    assert comparison.reason == f"{few} too few for an interval (at least 6)"
    assert comparison.p == comparison.smallest_p == 2.0 ** (1 - n)


def test_no_seeds_are_no_error() -> None:
    none = np.array([])
    assert compare_pairs(none, none).reason == "no seed has a value in both configurations"
    assert compare_groups(none, np.ones(2)).reason == "a configuration has no seed with a value"


def test_groups_have_a_difference_of_medians_and_no_interval() -> None:
    comparison = compare_groups(np.array([1.0, 2.0, 9.0]), np.array([4.0, 5.0, 6.0, 8.0]))
    assert (comparison.n, comparison.n_second, comparison.paired) == (3, 4, False)
    assert comparison.difference == -3.5 and comparison.mean == pytest.approx(4 - 5.75)
    assert math.isnan(comparison.low) and "without assumptions" in str(comparison.reason)
    assert comparison.p == pytest.approx(stats.mannwhitneyu([1, 2, 9], [4, 5, 6, 8], method="exact").pvalue)
    assert compare_groups(np.array([inf]), np.array([inf])).difference == 0
