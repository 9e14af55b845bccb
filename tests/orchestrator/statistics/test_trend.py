"""Medians of neighbours along a hyperparameter."""

import math

import numpy as np
import pytest

from orchestrator.statistics.trend import compute_binned_medians


def test_the_trend_follows_a_bend_that_a_correlation_does_not_see():
    x = np.linspace(0, 1, 80)
    y = (x - 0.5) ** 2
    bins = compute_binned_medians(x, y)
    assert len(bins) == 8 and sum(trend_bin.n for trend_bin in bins) == 80
    medians = [trend_bin.median for trend_bin in bins]
    assert medians[0] > medians[3] < medians[7] and medians == sorted(medians[:4], reverse=True) + sorted(medians[4:])
    inside = y[:10]
    assert (bins[0].x, bins[0].median) == (pytest.approx(np.median(x[:10])), pytest.approx(np.median(inside)))
    assert (bins[0].q25, bins[0].q75) == pytest.approx(tuple(np.quantile(inside, [0.25, 0.75])))


def test_equal_values_share_a_bin_and_few_have_none():
    assert compute_binned_medians([1, 2, 3], [1, 2, 3]) == [] == compute_binned_medians([5] * 40, range(40))
    bins = compute_binned_medians([1] * 30 + [2] * 10, [math.inf] * 3 + [1.0] * 27 + [2.0] * 9 + [math.nan])
    assert [(trend_bin.x, trend_bin.median, trend_bin.n) for trend_bin in bins] == [(1, 1.0, 30), (2, 2.0, 9)]
