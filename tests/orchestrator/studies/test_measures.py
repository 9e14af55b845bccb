"""Intervals cover as often as they say, failed members are counted, and an answer is where the interval lies."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from orchestrator.studies.measures import Effect, effect_over, paired_effect
from orchestrator.studies.studies import SEARCH_SPACES
from tests.orchestrator.studies.conftest import pretended_sweep
from trainers.config.member import MemberConfig


@pytest.mark.parametrize("configurations", [6, 9, 12, 30])
def test_intervals_over_configurations_cover_as_often_as_they_say(configurations: int) -> None:
    rng, covered = np.random.default_rng(0), 0
    names = [f"c{number:02}" for number in range(configurations)]
    rows = pd.DataFrame({"config_id": np.repeat(names, 3), "seed": [0, 1, 2] * configurations})
    for _ in range(200):
        shared = np.repeat(rng.normal(size=configurations), 3)
        one = rows.assign(value=shared + 0.3 * rng.normal(size=len(rows)))
        effect = paired_effect(one, rows.assign(value=0.0), unit="config_id")
        covered += effect.low <= 0 <= effect.high
    assert effect.unit == "configurations" and effect.n == configurations
    assert covered >= 184  # 190 of 200 is nominal


def test_configurations_of_one_seed_are_no_units_of_their_own() -> None:
    """Eight configurations that share a seed's luck are worth one."""
    rng, covered = np.random.default_rng(0), {"seed": 0, "config_id": 0}
    rows = pd.DataFrame({"config_id": np.repeat([f"c{i}" for i in range(8)], 6), "seed": list(range(6)) * 8})
    for _ in range(200):
        one = rows.assign(value=np.tile(rng.normal(size=6), 8) + 0.1 * rng.normal(size=48))
        for unit in covered:
            effect = paired_effect(one, rows.assign(value=0.0), unit=unit)
            covered[unit] += effect.low <= 0 <= effect.high
    assert covered["seed"] >= 184 and covered["config_id"] < 100


def test_six_units_are_enough_for_an_interval_and_five_are_not() -> None:
    assert effect_over([[float(value)] for value in range(1, 7)], "seeds").verdict("larger") == "held"
    five = effect_over([[float(value)] for value in range(1, 6)], "seeds")
    assert five.verdict("larger") == "not decided" and str(five) == "+3 no interval, n = 5 seeds"


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


def test_the_last_evaluation_of_each_member_is_its_own(tmp_path: Path) -> None:
    shipped = SEARCH_SPACES / "inductive_scratchpad" / "fig5b_addition_shift_cpu.yaml"
    with_both, file = shipped.read_text(), tmp_path / "two.yaml"
    assert with_both.count("{task.scratchpad: inductive}") == 1
    changed = "{task.scratchpad: inductive, training.steps: 1200}"
    file.write_text(with_both.replace("{task.scratchpad: inductive}", changed))

    def step_itself(member: MemberConfig, number: int, metrics: tuple[str, ...], step: int) -> np.ndarray:
        return np.full((1, len(metrics), len(member.evaluated_lengths)), step)

    sweep = pretended_sweep(file, tmp_path, step_itself, evaluations=2, seeds=2)
    rows = sweep.members("sum", "raw", (4,))
    assert sorted(rows["value"]) == [1200, 1200, 2400, 2400]
    assert set(sweep.members("sum", "raw", (4,), at=1200)["value"]) == {1200}
    assert sweep.size == "2 x 2 x 1,200 or 2,400, 0 failed"
