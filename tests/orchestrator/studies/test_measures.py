"""Intervals cover as often as they say, failed members are counted, and an answer is where the interval lies."""

import numpy as np
import pandas as pd
import pytest

from orchestrator.studies.measures import Effect, effect_over, paired_effect


@pytest.mark.parametrize("configurations", [4, 6, 9, 12, 30])
def test_intervals_cover_as_often_as_they_say(configurations: int) -> None:
    rng, covered = np.random.default_rng(0), 0
    names = [f"c{number:02}" for number in range(configurations)]
    rows = pd.DataFrame({"config_id": np.repeat(names, 3), "seed": [0, 1, 2] * configurations})
    for _ in range(200):
        shared = np.repeat(rng.normal(size=configurations), 3)
        one = rows.assign(value=shared + 0.3 * rng.normal(size=len(rows)))
        effect = paired_effect(one, rows.assign(value=0.0))
        covered += effect.low <= 0 <= effect.high
    assert 174 <= covered <= 198  # 190 of 200 is nominal; resampling a dozen medians covers a little less


def test_three_units_are_enough_for_an_interval_and_two_are_not() -> None:
    rng = np.random.default_rng(0)
    effects = [effect_over([[value] for value in rng.normal(size=3)], "seeds") for _ in range(400)]
    assert 366 <= sum(effect.low <= 0 <= effect.high for effect in effects) <= 394  # 380 is nominal
    assert effect_over([[1.0], [1.1]], "seeds").verdict("larger") == "not decided"


def test_a_failed_member_is_counted_and_not_compared() -> None:
    rows = pd.DataFrame({"config_id": ["a"] * 5, "seed": range(5)})
    effect = paired_effect(rows.assign(value=[1.0, 1.0, 1.0, 1.0, np.nan]), rows.assign(value=0.5))
    assert (effect.value, effect.n, effect.dropped) == (0.5, 4, 1) and "1 failed" in str(effect)


@pytest.mark.parametrize(
    ("low", "high", "better", "answer"),
    [
        (-2.0, -1.0, "smaller", "held"),
        (-2.0, -1.0, "larger", "did not hold"),
        (1.0, 2.0, "larger", "held"),
        (-1.0, 1.0, "smaller", "not decided"),
        (np.nan, np.nan, "smaller", "not decided"),
    ],
)
def test_answers(low: float, high: float, better: str, answer: str) -> None:
    effect = Effect(value=0.0, low=low, high=high, n=5, unit="seeds")
    assert effect.verdict(better) == answer
