"""The one policy for failed seeds: against slow, obvious code, and the same wherever a median over seeds is shown."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.record.state.state import SweepState
from orchestrator.results.make_summary import summarize
from orchestrator.statistics.failed_seeds import score_seeds, summarize_seeds

values_of_seeds = st.lists(st.floats(-1e6, 1e6) | st.just(math.nan), max_size=9)
POLICIES = ("worst", "exclude", "fail")
policies = st.sampled_from(POLICIES)
directions = st.sampled_from(["minimize", "maximize", "none"])
FAR = {"minimize": 1e12, "maximize": -1e12}


@given(values_of_seeds, policies, directions)
def test_a_median_over_seeds_by_finite_stand_ins(values: list[float], policy: str, direction: str) -> None:
    """A failed seed is a value far beyond all others, or is not there."""
    failed = sum(map(math.isnan, values))
    alive = [value for value in values if not math.isnan(value)]
    counted = [*alive, *[FAR[direction]] * failed] if policy == "worst" and direction in FAR else alive
    summary = summarize_seeds(values, policy, direction)
    assert (summary.seed_count, summary.failed_count, summary.value_count) == (len(values), failed, len(counted))
    if not alive:
        assert np.isnan(summary.quartiles).all()
        return
    for got, fraction in zip(summary.quartiles, (0.25, 0.5, 0.75), strict=True):
        expected = np.quantile(counted, fraction)
        assert got == (math.copysign(math.inf, expected) if abs(expected) > 1e10 else pytest.approx(expected))


@given(values_of_seeds, policies, st.sampled_from(["minimize", "maximize"]))
def test_a_score_is_that_median_unless_the_configuration_failed(
    values: list[float], policy: str, direction: str
) -> None:
    score = score_seeds(values, policy, direction)
    shown = summarize_seeds(values, policy, direction)
    lost = sum(map(math.isnan, values))
    assert score.is_failed == (lost == len(values) or (policy == "fail" and lost > 0))
    assert (score.seed_count, score.failed_count) == (len(values), lost)
    if not score.is_failed:
        assert score == shown
    elif policy == "fail":
        assert np.isnan(score.quartiles).all()
    else:
        assert set(score.quartiles) == {math.inf if direction == "minimize" else -math.inf}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_score_curves_evaluations_and_families_count_failed_seeds_alike(
    tmp_path: Path, synthetic_sweep: Callable[..., SweepState], policy: str, direction: str
) -> None:
    """Every value of a seed is the same at all lengths, so that every median over seeds is of the same values."""
    spec = {
        "task": {"name": "padded_addition", "width": 8, "train_digits": 2, "measured_digits": 2},
        "objective.metric": "exact_match",
        "objective.average": "raw",
        "objective.lengths": [3, 4],
        "objective.direction": direction,
        "objective.failed_seeds": policy,
    }
    of_seed = [0.5, 0.25, math.nan, 0.125, math.nan]
    state = synthetic_sweep(
        tmp_path / "alike",
        [{}],
        5,
        lambda number, seed, average, metric, lengths, step: of_seed[seed] if seed in (0, 1, 3) else 0.0,
        failed={(0, 2): 10, (0, 4): 60},
        spec=spec,
    )
    result = summarize(state)
    (row,) = result.rows
    expected = summarize_seeds(of_seed, policy, direction)
    score = score_seeds(of_seed, policy, direction)
    np.testing.assert_array_equal(row.score_quartiles, score.quartiles)
    assert row.has_failed == score.is_failed
    band = result.bands[row.config_id, "exact_match", "raw"]
    for at in (row.selection_quartiles, row.trained_quartiles, row.test_quartiles):
        assert at == expected.quartiles
    assert set(zip(band.q25, band.median, band.q75, strict=True)) == {expected.quartiles}
