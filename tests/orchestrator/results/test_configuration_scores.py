"""Scores against numpy and against slow, obvious code."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from orchestrator.errors import LedgerError
from orchestrator.record.files.curves import read_curves
from orchestrator.record.state.state import SweepState
from orchestrator.results.scoring.configuration_scores import (
    compute_area_beyond,
    find_generalization_length,
    rank_configurations,
    read_objective,
    score_configuration,
    score_configurations,
    score_members,
)
from orchestrator.statistics.failed_seeds import SeedStatistics
from orchestrator.statistics.quartiles import Quartiles
from search_spaces import Objective
from search_spaces.grammar.objective import SeedQuantile, ShareAbove

finite = st.floats(-1e6, 1e6)
seeds_scores = st.lists(finite | st.just(math.nan), min_size=1, max_size=9)
directions = st.sampled_from(["minimize", "maximize"])
BASE = Objective(metric="tv", average="ema", lengths=(6, 7), direction="minimize")


def objective(**changes: Any) -> Objective:
    return BASE.model_copy(update=changes)


def table(rows: list[tuple[str, int, int, int, float]], average: str = "ema", metric: str = "tv") -> pd.DataFrame:
    """Curves from (config_id, seed, length, step, value)."""
    frame = pd.DataFrame(rows, columns=["config_id", "seed", "length", "step", "value"])
    return frame.assign(average=average, metric=metric).astype({"value": np.float32})


def curve(name: str, seed: int, step: int, values: dict[int, float]) -> list[tuple[str, int, int, int, float]]:
    return [(name, seed, length, step, value) for length, value in values.items()]


CURVES = table(
    [
        *curve("c0", 0, 50, {5: 9.0, 6: 9.0, 7: 9.0}),
        *curve("c0", 0, 100, {5: 0.0, 6: 1.0, 7: 4.0}),
        *curve("c0", 1, 100, {5: 0.0, 6: 2.0, 7: math.nan}),
        *curve("c1", 0, 50, {5: 0.0, 6: 8.0, 7: 2.0}),  # this one's last step is 50
    ]
)


@pytest.mark.parametrize(
    ("reduce", "expected"),
    [("mean", [2.5, math.nan, 5.0]), ("max", [4.0, math.nan, 8.0]), ("last", [4.0, math.nan, 2.0])],
)
def test_a_seed_is_scored_over_the_lengths_at_the_last_step(reduce: str, expected: list[float]) -> None:
    scores = score_members(CURVES, objective(reduce=reduce, lengths=(7, 6)))
    assert list(scores["config_id"]) == ["c0", "c0", "c1"]
    assert list(scores["seed"]) == [0, 1, 0]
    np.testing.assert_array_equal(scores["score"], expected)


def test_a_hole_before_the_last_length_is_a_failure_too() -> None:
    holed = table(curve("c0", 0, 100, {6: math.nan, 7: 1.0}))
    for reduce in ("mean", "max", "last"):
        assert score_members(holed, objective(reduce=reduce))["score"].isna().all()


def test_opposite_infinities_in_a_mean_are_a_failure() -> None:
    curves = table(curve("c0", 0, 100, {6: math.inf, 7: -math.inf}))
    assert score_members(curves, BASE)["score"].isna().all()


def test_planned_seeds_without_rows_failed() -> None:
    scores = score_members(CURVES, BASE, planned_seeds={"c0": (0, 1, 2), "c1": (0,), "c9": (4,)})
    assert [tuple(row) for row in scores[["config_id", "seed"]].itertuples(index=False)] == [
        ("c0", 0), ("c0", 1), ("c0", 2), ("c1", 0), ("c9", 4),
    ]  # fmt: skip
    np.testing.assert_array_equal(scores["score"], [2.5, math.nan, math.nan, 5.0, math.nan])


def test_what_is_not_in_the_curves_is_an_error() -> None:
    for changes, message in (
        ({"metric": "kl"}, "no kl of the average ema"),
        ({"average": "raw"}, "no tv of the average raw"),
        ({"lengths": (6, 8, 9)}, "lack length 8, 9"),
    ):
        with pytest.raises(KeyError, match=message):
            score_members(CURVES, objective(**changes))


def test_empty_curves_have_no_scores_but_failed_seeds() -> None:
    assert len(score_members(CURVES[:0], BASE)) == 0
    assert score_members(CURVES[:0], BASE, planned_seeds={"c0": (0, 1)})["score"].isna().tolist() == [True, True]


@pytest.mark.parametrize("written", [{}, {"evaluation": "best"}, {"threshold": 1}, {"failed_seeds": "fail"}])
def test_an_objective_is_read_from_a_recorded_specification(written: dict[str, Any]) -> None:
    section = {"metric": "tv", "average": "ema", "lengths": [6, 7], "direction": "minimize", **written}
    assert read_objective({"name": "s", "objective": section}) == objective(**written)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"direction": "down"}, r"recorded objective\.direction: Input should be 'minimize' or 'maximize'"),
        ({"weight": 2}, r"recorded objective\.weight: Extra inputs are not permitted"),
    ],
)
def test_an_objective_of_another_format_is_refused_by_name(changes: dict[str, Any], message: str) -> None:
    section = {"metric": "tv", "average": "ema", "lengths": [6, 7], "direction": "minimize", **changes}
    with pytest.raises(LedgerError, match=message):
        read_objective({"objective": section})


@given(seeds_scores, directions)
@example([0.0, 129.0, 0.95, math.nan], "minimize")
def test_the_policy_worst_is_the_median_of_finite_stand_ins(values: list[float], direction: str) -> None:
    score = score_configuration(values, objective(direction=direction))
    worst = 1e12 if direction == "minimize" else -1e12
    expected = np.median([worst if math.isnan(value) else value for value in values])
    failed = sum(map(math.isnan, values))
    assert (score.seed_count, score.failed_count) == (len(values), failed)
    assert score.is_failed == (failed == len(values))
    if 2 * failed < len(values):
        assert score.median == expected
    else:
        assert score.median == math.copysign(math.inf, worst)
    assert list(score.quartiles) == sorted(score.quartiles)


@given(seeds_scores, directions)
def test_the_policy_exclude_is_the_median_of_the_survivors(values: list[float], direction: str) -> None:
    score = score_configuration(values, objective(direction=direction, failed_seeds="exclude"))
    alive = [value for value in values if not math.isnan(value)]
    assert score.failed_count == len(values) - len(alive) and score.is_failed == (not alive)
    if alive:
        assert score.median == np.median(alive)
        assert score.quartiles[::2] == (np.quantile(alive, 0.25), np.quantile(alive, 0.75))


@given(seeds_scores, directions)
def test_the_policy_fail_allows_no_failed_seed(values: list[float], direction: str) -> None:
    score = score_configuration(values, objective(direction=direction, failed_seeds="fail"))
    failed = sum(map(math.isnan, values))
    assert score.is_failed == math.isnan(score.median) == (failed > 0) and score.failed_count == failed


@given(st.lists(st.tuples(seeds_scores, st.sampled_from(["worst", "exclude", "fail"])), max_size=6), directions)
def test_ranking_puts_the_best_first_and_the_failed_last(
    several: list[tuple[list[float], str]], direction: str
) -> None:
    scores = {
        f"c{number}": score_configuration(values, objective(direction=direction, failed_seeds=policy))
        for number, (values, policy) in enumerate(several)
    }
    ranked = rank_configurations(scores, direction)
    assert sorted(ranked) == sorted(scores)
    assert [scores[name].is_failed for name in ranked] == sorted(score.is_failed for score in scores.values())
    alive = [scores[name].median for name in ranked if not scores[name].is_failed]
    assert alive == sorted(alive, reverse=direction == "maximize")


def test_ties_keep_their_order() -> None:
    assert rank_configurations({name: score_configuration([1.0], BASE) for name in "bca"}, "maximize") == [
        "b",
        "c",
        "a",
    ]


@given(st.dictionaries(st.integers(1, 30), finite | st.just(math.nan), min_size=0, max_size=10), finite, directions)
def test_generalization_length_by_brute_force(curve: dict[int, float], threshold: float, direction: str) -> None:
    def meets(value: float) -> bool:
        return value <= threshold if direction == "minimize" else value >= threshold

    expected = max(
        (length for length in curve if all(meets(curve[other]) for other in curve if other <= length)), default=0
    )
    assert find_generalization_length(list(curve), list(curve.values()), threshold, direction) == expected


def test_area_beyond_is_the_mean_past_the_longest_length_that_was_used() -> None:
    assert compute_area_beyond([7, 5, 6, 1], [3.0, 100.0, 1.0, 100.0], (1, 2, 5)) == 2.0
    assert math.isnan(compute_area_beyond([1, 5], [1.0, 1.0], (5,)))
    assert math.isnan(compute_area_beyond([6, 7], [1.0, math.nan], (5,)))


def test_a_sweep_is_scored_from_its_state(
    tmp_path: Path, synthetic_sweep: Callable[..., SweepState], simple_curve: Callable[..., Any]
) -> None:
    drawn = [{"training.learning_rate": rate} for rate in (0.001, 0.002, 0.003, 0.004)]
    failed = {(1, 0): 60, (2, 0): 10, (2, 1): 100, (2, 2): 1}
    state = synthetic_sweep(tmp_path / "s", drawn, 3, simple_curve, failed=failed, died=[3])
    judged = read_objective(state.spec)
    scores = score_configurations(score_members(read_curves(state), judged, state.list_packed_seeds()), judged)
    final = score_configurations(score_members(read_curves(state, final_only=True), judged), judged)
    assert scores == final  # a dead pack has NaN rows, so its seeds are known to have failed either way
    assert [(score.seed_count, score.failed_count, score.is_failed) for score in scores.values()] == [
        (3, 0, False), (3, 1, False), (3, 3, True), (3, 3, True),
    ]  # fmt: skip
    # number 0: lengths 6 and 7 give 0.02 + 0.03 * 1.5 + 0.2 / 100 + 0.001 * seed; number 1 lost its best seed
    assert [score.median for score in scores.values()][:2] == pytest.approx([0.068, 0.089], abs=1e-6)
    assert rank_configurations(scores, "minimize") == list(state.configurations)


def test_a_score_is_plain_numbers() -> None:
    score = score_configuration(np.array([1.0, 2.0, 4.0]), BASE)
    assert score == SeedStatistics(
        quartiles=Quartiles(1.5, 2.0, 3.0), score=2.0, seed_count=3, failed_count=0, value_count=3
    )
    assert {type(value) for value in (*score.quartiles, score.seed_count, score.failed_count)} == {float, int}


@given(st.lists(finite, min_size=1, max_size=9), directions)
@pytest.mark.parametrize(
    ("seeds", "expected"),
    [
        ("median", np.median),
        ("mean", np.mean),
        ("max", np.max),
        ("min", np.min),
        (SeedQuantile(quantile=0.25), lambda values: np.quantile(values, 0.25)),
        (ShareAbove(share_above=0.5), lambda values: np.mean([value >= 0.5 for value in values])),
    ],
)
def test_a_score_is_the_statistic_over_seeds_that_the_objective_names(
    seeds: Any, expected: Callable[[list[float]], float], values: list[float], direction: str
) -> None:
    scored = score_configuration(values, objective(seeds=seeds, direction=direction))
    assert scored.score == pytest.approx(expected(values), rel=1e-9, abs=1e-9)
    assert scored.median == score_configuration(values, objective(direction=direction)).score


def test_a_failed_seed_is_below_every_bar_and_makes_a_mean_infinite() -> None:
    values = [0.995, math.nan, 1.0, 0.2]
    above = {"direction": "maximize", "seeds": ShareAbove(share_above=0.99)}
    assert score_configuration(values, objective(**above)).score == 0.5
    assert score_configuration(values, objective(**above, failed_seeds="exclude")).score == pytest.approx(2 / 3)
    assert score_configuration(values, objective(direction="maximize", seeds="mean")).score == -math.inf
    assert score_configuration([math.inf, -math.inf], objective(seeds="mean")).score == math.inf


def test_ranks_follow_the_statistic() -> None:
    members = pd.DataFrame({"config_id": ["a"] * 3 + ["b"] * 3, "seed": [0, 1, 2] * 2, "score": [1.0, 1, 9, 2, 2, 2]})
    for seeds, best_first in {"median": ["a", "b"], "mean": ["b", "a"], "min": ["a", "b"], "max": ["b", "a"]}.items():
        assert rank_configurations(score_configurations(members, objective(seeds=seeds)), "minimize") == best_first
