"""Friedman's test with Conover's comparison, against a textbook, scipy and its own simulation."""

import numpy as np
import pytest
from scipy import stats

from orchestrator.statistics.friedman import rule_out_treatments

GRASS = """4 3 2 1
4 2 3 1
3 1.5 1.5 4
3 1 2 4
4 2 1 3
2 2 2 4
1 3 2 4
2 4 1 3
3.5 1 2 3.5
4 1 3 2
4 2 3 1
3.5 1 2 3.5"""  # Conover (1999), section 5.8, example 1: twelve homeowners rank four kinds of grass


def test_the_example_of_conover():
    values = np.array([[float(word) for word in line.split()] for line in GRASS.splitlines()])
    result = rule_out_treatments(values, 0.05)
    assert result.rank_sums.tolist() == [38.0, 23.5, 24.5, 34.0]
    assert result.p == pytest.approx(0.0440, abs=1e-4)
    assert result.stays.tolist() == [False, True, True, True], "the critical difference is 11.48"


@pytest.mark.parametrize("blocks", [3, 8])
def test_p_is_that_of_scipy_also_with_ties(blocks):
    values = np.random.default_rng(blocks).integers(0, 4, (blocks, 6)).astype(float)
    assert rule_out_treatments(values, 0.05).p == pytest.approx(stats.friedmanchisquare(*values.T).pvalue)


def test_two_are_compared_by_signed_ranks():
    values = np.stack([np.arange(6.0), np.arange(6.0) + 1 + np.arange(6) / 10], axis=1)
    result = rule_out_treatments(values, 0.05)
    assert result.p == pytest.approx(2 / 2**6) and result.stays.tolist() == [True, False]
    assert rule_out_treatments(values[:, ::-1], 0.05).stays.tolist() == [False, True]
    assert rule_out_treatments(values[:5], 0.05).stays.all(), "five pairs cannot decide at this level"


def test_failed_seeds_are_last_and_ties():
    values = np.array([[0.1, 0.2, np.inf, np.inf]] * 8)
    assert rule_out_treatments(values, 0.05).stays.tolist() == [True, False, False, False]
    assert rule_out_treatments(np.full((8, 3), np.inf), 0.05).stays.all()
    assert rule_out_treatments(np.full((8, 2), np.inf), 0.05).p == 1.0
    assert rule_out_treatments(np.array([[1.0, 2.0, 3.0]]), 0.9).stays.all(), "one block decides nothing"


def test_configurations_that_are_alike_seldom_lose_any():
    random = np.random.default_rng(0)
    rejected = [not rule_out_treatments(random.normal(size=(8, 6)), 0.05).stays.all() for _ in range(400)]
    assert np.mean(rejected) < 0.07
