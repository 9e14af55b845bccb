"""Exact tests of two samples against scipy, against every assignment in turn, and against chance itself."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.multitest import multipletests

from orchestrator.statistics import exact_tests
from orchestrator.statistics.exact_tests import (
    compute_rank_sum_test,
    compute_signed_rank_test,
    correct_by_holm,
    count_needed_pairs,
)

inf, nan = math.inf, math.nan
FEW_VALUES = st.sampled_from([-inf, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0, inf])


def by_every_sign(differences: np.ndarray) -> float:
    """The share of all assignments of signs whose signed-rank sum is as far from zero as the one seen."""
    moved = differences[differences != 0]
    ranks = stats.rankdata(np.abs(moved))
    seen = abs((np.sign(moved) * ranks).sum())
    sums = [abs((np.array(signs) * ranks).sum()) for signs in itertools.product((-1, 1), repeat=len(moved))]
    return float(np.mean([other_sum >= seen - 1e-9 for other_sum in sums]))


def by_every_deal(first: np.ndarray, second: np.ndarray) -> float:
    """The share of all deals of the ranks whose sum is as far from its mean as the one seen."""
    ranks = stats.rankdata(np.concatenate([first, second]))
    mean = len(first) * ranks.mean()
    seen = abs(ranks[: len(first)].sum() - mean)
    deals = itertools.combinations(range(len(ranks)), len(first))
    return float(np.mean([abs(ranks[list(deal)].sum() - mean) >= seen - 1e-9 for deal in deals]))


@settings(max_examples=40)
@given(st.lists(FEW_VALUES, min_size=0, max_size=8))
def test_a_signed_rank_test_counts_every_assignment(values: list[float]) -> None:
    result = compute_signed_rank_test(np.array(values))
    assert result.p == pytest.approx(by_every_sign(np.array(values)))
    moved = sum(value != 0 for value in values)
    assert result.smallest_p == min(1.0, 2.0 ** (1 - moved)) <= result.p


@settings(max_examples=40)
@given(st.lists(FEW_VALUES, min_size=1, max_size=5), st.lists(FEW_VALUES, min_size=1, max_size=5))
def test_a_rank_sum_test_counts_every_deal(first: list[float], second: list[float]) -> None:
    x, y = np.array(first), np.array(second)
    forward, swapped = compute_rank_sum_test(x, y), compute_rank_sum_test(y, x)
    assert forward.p == pytest.approx(by_every_deal(x, y))
    assert swapped.p == pytest.approx(forward.p)
    assert 0 < forward.smallest_p <= forward.p + 1e-12


@pytest.mark.parametrize("n", [2, 5, 9, 20])
def test_they_are_the_exact_tests_of_scipy(n: int) -> None:
    rng = np.random.default_rng(n)
    for shift in (0.0, 0.8):
        x, y = rng.normal(size=n), rng.normal(size=n + 2) + shift
        assert compute_signed_rank_test(x - y[:n]).p == pytest.approx(stats.wilcoxon(x - y[:n], method="exact").pvalue)
        assert compute_rank_sum_test(x, y).p == pytest.approx(stats.mannwhitneyu(x, y, method="exact").pvalue)


def test_signed_ranks_weigh_differences_by_their_size_and_not_by_their_sign_alone() -> None:
    """As many above zero as below it, but larger: the sign test sees nothing, Wilcoxon's signed-rank test does."""
    differences = np.array([*-np.arange(1.0, 8), *np.arange(10.0, 17)])
    result = compute_signed_rank_test(np.array([*differences, 0.0, 0.0]))
    assert stats.binomtest(7, 14).pvalue == 1.0
    assert result.p == pytest.approx(stats.wilcoxon(differences, method="exact").pvalue) and result.p < 0.15


def test_five_seeds_cannot_go_below_a_sixteenth() -> None:
    assert compute_signed_rank_test(np.arange(1.0, 6)) == (0.0625, 0.0625)
    assert compute_signed_rank_test(np.array([0.0, 0.0, 1.0])) == (1.0, 1.0)
    assert compute_signed_rank_test(np.array([])) == (1.0, 1.0)
    assert compute_rank_sum_test(np.arange(5.0), np.arange(5.0) + 9).p == pytest.approx(2 / math.comb(10, 5))
    assert compute_rank_sum_test(np.ones(4), np.ones(4)) == (1.0, 1.0)
    assert compute_rank_sum_test(np.array([]), np.ones(4)) == (1.0, 1.0)


def test_many_seeds_are_counted_in_full_too() -> None:
    rng = np.random.default_rng(0)
    difference = rng.normal(size=400) + 0.1
    assert compute_signed_rank_test(difference).p == pytest.approx(
        stats.wilcoxon(difference, method="approx").pvalue, rel=0.05
    )
    x, y = rng.normal(size=50), rng.normal(size=50) + 0.4
    about = stats.mannwhitneyu(x, y, method="asymptotic").pvalue
    assert compute_rank_sum_test(x, y).p == pytest.approx(about, rel=0.05)


def test_rank_sums_of_more_seeds_than_are_counted_are_close_to_the_count(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    x, y = (np.round(rng.normal(size=size), 1) for size in (45, 55))  # with ties
    samples = [(x, y + 0.3), (x + 0.3, y), (x, y), (np.arange(45.0), np.arange(55.0) + 50)]
    counted = [compute_rank_sum_test(first, second) for first, second in samples]
    monkeypatch.setattr(exact_tests, "MAX_EXACT_RANKS", 99)
    for (first, second), expected in zip(samples[:3], counted, strict=False):
        assert compute_rank_sum_test(first, second).p == pytest.approx(expected.p, rel=0.03)
    apart = compute_rank_sum_test(*samples[3])
    assert apart.p == apart.smallest_p < 1e-15 and counted[3].p == counted[3].smallest_p < 1e-15
    assert compute_rank_sum_test(np.ones(60), np.ones(60)) == (1.0, 1.0)
    assert 0 < compute_rank_sum_test(np.append(x, np.inf), y).p < 1  # a failed seed


@pytest.mark.parametrize("n", [5, 6, 8])
def test_no_more_than_five_of_a_hundred_are_rejected_where_nothing_differs(n: int) -> None:
    """Seeds of one fate in both configurations, whose noise is heavy-tailed, or whose data are all that is shared."""
    rng, count = np.random.default_rng(n), 400
    fate = rng.random((count, n)) < 0.3
    noise = rng.standard_t(2, size=(2, count, n))
    same = 0.5 * fate + 0.02 * noise
    apart = 0.5 * (rng.random((2, count, n)) < 0.3) + 0.02 * noise
    for x, y in (same, apart):
        rejected = [compute_signed_rank_test(differences).p <= 0.05 for differences in x - y]
        assert np.mean(rejected) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / count)
    rejected = [compute_rank_sum_test(first, second).p <= 0.05 for first, second in zip(*apart, strict=True)]
    assert np.mean(rejected) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / count)


def test_holms_correction_is_that_of_statsmodels() -> None:
    for count in (1, 2, 5, 15):
        p = (np.random.default_rng(count).random(count) ** 3).round(2).tolist()  # small ones, and ties
        assert correct_by_holm(p) == pytest.approx(multipletests(p, method="holm")[1])
        with_a_gap = correct_by_holm([nan, *p])
        assert math.isnan(with_a_gap[0]) and with_a_gap[1:] == correct_by_holm(p)


def test_pairs_that_are_needed() -> None:
    for tests in (1, 3, 10, 15, 20):
        n = count_needed_pairs(tests)
        assert tests * 2.0 ** (1 - n) <= 0.05 < tests * 2.0 ** (2 - n)
    assert count_needed_pairs(1) == 6
