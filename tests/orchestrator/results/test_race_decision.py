"""A round of a race is decided as ten lines of pandas would decide it; failed seeds count as the objective says."""

import math

import numpy as np
import pandas as pd
import pytest

from orchestrator.results.scoring.race_decision import decide_round
from search_spaces import Objective, Racing

NAN = math.nan


def objective(direction="minimize", failed_seeds="worst"):
    judged = {"metric": "loss", "average": "raw", "lengths": (6,), "direction": direction}
    return Objective(**judged, failed_seeds=failed_seeds)


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
@pytest.mark.parametrize("keep", [0.1, 0.25, 0.6])
def test_a_share_is_that_of_the_best_medians(direction, keep):
    table = pd.DataFrame(np.random.default_rng(1).normal(size=(30, 5)), index=[f"c{n}" for n in range(30)])
    outcome = decide_round(
        {name: list(row) for name, row in table.iterrows()}, Racing(first=5, keep=keep), objective(direction)
    )
    ranked = table.median(axis=1).sort_values(ascending=direction == "minimize")
    assert set(outcome.survivors) == set(ranked.index[: math.ceil(keep * 30)])
    assert outcome.by == "median" and outcome.values == pytest.approx(table.median(axis=1).to_dict())


def test_ties_with_the_last_stay_and_one_stays_at_least():
    scores = {"a": [0.0, 0.0], "b": [1.0, 1.0], "c": [1.0, 1.0], "d": [2.0, 2.0]}
    assert decide_round(scores, Racing(first=2, keep=0.5), objective()).survivors == ("a", "b", "c")
    assert decide_round(scores, Racing(first=2, keep=0.01), objective()).survivors == ("a",)
    assert decide_round(scores, Racing(first=2, keep=0.5), objective("maximize")).survivors == ("b", "c", "d")


@pytest.mark.parametrize(
    ("policy", "survivors", "value"),
    [("worst", ("a", "b"), math.inf), ("exclude", ("a", "c"), 0.5), ("fail", ("a", "b"), None)],
)
def test_failed_seeds_count_as_the_objective_says(policy, survivors, value):
    scores = {"a": [0.1, 0.1, 0.1], "b": [0.9, 0.9, 0.9], "c": [0.5, NAN, NAN], "d": [NAN, NAN, NAN]}
    outcome = decide_round(scores, Racing(first=3, keep=0.5), objective(failed_seeds=policy))
    assert outcome.survivors == survivors and outcome.values["c"] == value and outcome.values["d"] is None


@pytest.mark.parametrize("rule", [{"keep": 0.5}, {"test": "friedman"}])
def test_nothing_stays_when_everything_failed(rule):
    outcome = decide_round({"a": [NAN, NAN], "b": [NAN, NAN]}, Racing(first=2, **rule), objective())
    assert outcome.survivors == () and outcome.values == {"a": None, "b": None}


def test_after_a_test_two_stay_at_least():
    clear = {name: [level + 0.01 * seed for seed in range(8)] for name, level in zip("abcd", (1, 2, 3, 4), strict=True)}
    outcome = decide_round(clear, Racing(first=8, test="friedman"), objective())
    assert outcome.survivors == ("a", "b") and outcome.p < 0.001 and outcome.values["a"] == 8.0
    assert decide_round(clear, Racing(first=8, test="friedman"), objective("maximize")).survivors == ("c", "d")
    decision = decide_round({"a": [0.1], "b": [NAN]}, Racing(first=1, test="friedman"), objective())
    assert decision.survivors == ("a",) and decision.p is None


def test_a_failed_seed_is_last_in_its_block():
    scores = {"a": [0.1] * 8, "b": [0.2] * 8, "c": [0.0] * 3 + [NAN] * 5, "d": [0.3] * 8}
    outcome = decide_round(scores, Racing(first=8, test="friedman"), objective("maximize"))
    assert outcome.values["c"] == 4.0 * 8


def test_the_winner_of_a_search_was_also_lucky():
    """Of 64 alike configurations the first looks much better on the seeds of its race than on fresh ones."""
    random, racing = np.random.default_rng(0), Racing(first=2, keep=0.25)
    selection, confirmed = [], []
    for _ in range(200):
        level = random.normal(0, 0.1, 64)
        scores = level[:, None] + random.normal(0, 1, (64, 16))
        alive, seeds = list(range(64)), 2
        while True:
            if seeds == 16:
                break
            outcome = decide_round({str(n): list(scores[n, :seeds]) for n in alive}, racing, objective())
            alive, seeds = [int(name) for name in outcome.survivors], racing.compute_next_seed_count(seeds, 16)
        best = min(alive, key=lambda n: np.median(scores[n]))
        selection.append(np.median(scores[best]) - level[best])
        confirmed.append(np.median(random.normal(level[best], 1, 16)) - level[best])
    error = np.std(confirmed) / math.sqrt(200)
    assert np.mean(selection) < -10 * error, "too good where it was selected"
    assert abs(np.mean(confirmed)) < 3 * error, "as good as it is on fresh seeds"


def test_the_level_is_that_of_the_race_and_by_default_five_percent():
    ranks = [(1, 2, 3), (1, 2, 3), (1, 2, 3), (2, 1, 3), (3, 2, 1)]  # rank sums 8, 9, 13: p = 0.25
    scores = {
        name: [float(rank) for rank in column] for name, column in zip("abc", zip(*ranks, strict=True), strict=True)
    }

    def stays(**level):
        outcome = decide_round(scores, Racing(first=5, test="friedman", **level), objective())
        assert outcome.p == pytest.approx(math.exp(-1.4))
        return outcome.survivors

    assert stays() == stays(level=0.2) == ("a", "b", "c") and stays(level=0.3) == ("a", "b")
