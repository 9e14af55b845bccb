"""Correlations, medians and their intervals against scipy, brute force and planted truths."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from orchestrator.statistics.bootstrap import bootstrap_clustered_median, bootstrap_median, spearman

inf, nan = math.inf, math.nan


@given(
    st.lists(st.tuples(st.integers(-5, 5) | st.just(inf), st.integers(-5, 5) | st.just(-inf)), min_size=2, max_size=20)
)
def test_spearman_is_scipys(pairs: list[tuple[float, float]]) -> None:
    x, y = np.array(pairs, dtype=np.float64).T
    estimate = spearman([*x, nan, 1.0], [*y, 1.0, nan], resamples=50)
    assert estimate.n == len(pairs)
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert (estimate.value, estimate.interval, estimate.reason) == (None, None, "one side is the same everywhere")
        return
    expected = stats.pearsonr(stats.rankdata(x), stats.rankdata(y)).statistic
    assert estimate.value == pytest.approx(expected, abs=1e-12)
    if len(pairs) < 4:
        assert estimate.interval is None
        assert estimate.reason == f"n = {len(pairs)} is too few for an interval (at least 4)"
    elif abs(expected) > 1 - 1e-9 or estimate.interval is None:
        assert estimate.interval is None
        assert estimate.reason is not None and estimate.reason.startswith("every resample has the same correlation")
    else:
        low, high = estimate.interval
        assert -1 - 1e-9 <= low <= high <= 1 + 1e-9
        assert estimate.reason is None


@pytest.mark.parametrize("n", [0, 1])
def test_spearman_of_too_few(n: int) -> None:
    estimate = spearman([1.0] * n, [2.0] * n)
    assert (estimate.value, estimate.interval, estimate.n) == (None, None, n)
    assert estimate.reason == f"n = {n} is too few for a correlation"


@pytest.mark.parametrize(("n", "rho"), [(8, 0.0), (16, 0.6), (40, 0.9)])
def test_spearman_intervals_cover_planted_correlations(n: int, rho: float) -> None:
    truth = 6 / math.pi * math.asin(rho / 2)  # Spearman's correlation of a bivariate normal
    rng = np.random.default_rng(n)
    samples, covered, beyond_zero = 300, 0, 0
    for _ in range(samples):
        x = rng.normal(size=n)
        y = rho * x + math.sqrt(1 - rho**2) * rng.normal(size=n)
        interval = spearman(x, np.exp(y), resamples=300).interval
        assert interval is not None
        covered += interval[0] <= truth <= interval[1]
        beyond_zero += interval[0] > 0
    assert 0.90 <= covered / samples <= 0.99
    if rho == 0.0:
        assert beyond_zero / samples < 0.06
    if rho == 0.9:
        assert beyond_zero / samples > 0.95


def test_median_intervals_cover_the_median() -> None:
    rng = np.random.default_rng(0)
    estimates = [bootstrap_median(rng.exponential(size=25), resamples=300) for _ in range(300)]
    covered = sum(one.interval is not None and one.interval[0] <= math.log(2) <= one.interval[1] for one in estimates)
    assert 0.90 <= covered / 300 <= 0.99


def test_clusters_are_what_is_resampled() -> None:
    """Eight seeds that share their configuration's luck are worth one, not eight."""
    rng = np.random.default_rng(0)
    covered = {"clusters": 0, "members": 0}
    for _ in range(200):
        luck = rng.normal(size=20)
        clusters = [np.full(8, one) + 0.01 * rng.normal(size=8) for one in luck]
        for name, sample in (("clusters", clusters), ("members", list(np.concatenate(clusters)[:, None]))):
            interval = bootstrap_clustered_median(sample, resamples=200).interval
            assert interval is not None
            covered[name] += interval[0] <= 0 <= interval[1]
    assert 0.88 <= covered["clusters"] / 200 <= 0.99
    assert covered["members"] / 200 < 0.7


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.floats(-100, 100), min_size=1, max_size=4), min_size=4, max_size=7), st.integers(0, 9))
def test_clustered_resamples_by_brute_force(clusters: list[list[float]], seed: int) -> None:
    arrays = [np.array(cluster) for cluster in clusters]
    counts = np.random.default_rng(seed).multinomial(len(arrays), [1 / len(arrays)] * len(arrays), 60)
    medians = [
        np.median(np.concatenate([array for array, times in zip(arrays, row, strict=True) for _ in range(times)]))
        for row in counts
    ]
    estimate = bootstrap_clustered_median(arrays, resamples=60, seed=seed)
    expected = np.quantile(medians, [0.025, 0.975], method="inverted_cdf")
    assert estimate.value == np.median(np.concatenate(arrays))
    assert estimate.interval == pytest.approx(tuple(expected))
    assert estimate.n == len(arrays)


def test_small_medians_say_why_there_is_no_interval() -> None:
    assert bootstrap_median([]).reason == "no values"
    assert bootstrap_median([nan]).n == 0
    three = bootstrap_median([1.0, 5.0, 2.0, nan])
    assert (three.value, three.interval, three.n) == (2.0, None, 3)
    assert three.reason == "n = 3 is too few for an interval (at least 4)"
    assert bootstrap_median([inf, -inf, inf, -inf]).reason == "the middle lies between two infinities"
    assert bootstrap_median([1.0, 2.0, 3.0, inf, inf]).value == 3.0
    assert bootstrap_median([4.0] * 5).interval == (4.0, 4.0)
    assert bootstrap_clustered_median([]).reason == "no values"
    apart = [np.array([inf, -inf])] * 5  # one average reached what the other did not
    assert bootstrap_clustered_median(apart).reason == "the middle lies between two infinities"


def test_the_same_seed_gives_the_same_interval() -> None:
    x, y = np.arange(10.0), np.array([3, 1, 4, 1, 5, 9, 2, 6, 5, 3.0])
    assert spearman(x, y, seed=3) == spearman(x, y, seed=3)
    assert spearman(x, y, seed=3).interval != spearman(x, y, seed=4).interval
    narrow, wide = spearman(x, y, level=0.5).interval, spearman(x, y, level=0.99).interval
    assert narrow is not None and wide is not None
    assert wide[0] < narrow[0] < narrow[1] < wide[1]
