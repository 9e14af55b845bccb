"""Schedules against their formulas."""

import math

import pytest
import torch

from trainers.errors import ConfigError
from trainers.schedules import Constant, Cosine, Linear


def factors(schedule, steps: int) -> list[float]:
    return [float(schedule.factor(torch.tensor(t), steps)) for t in range(1, steps + 1)]


def test_constant_with_and_without_warmup() -> None:
    assert factors(Constant(), 5) == [1.0] * 5
    assert factors(Constant(warmup=4), 6) == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(("warmup", "final"), [(0, 0.0), (3, 0.1)])
def test_linear_and_cosine(warmup: int, final: float) -> None:
    for t in range(1, 11):
        ramp = min(t / warmup, 1.0) if warmup else 1.0
        part = min(max((t - warmup) / (10 - warmup), 0.0), 1.0)
        assert factors(Linear(warmup=warmup, final=final), 10)[t - 1] == pytest.approx(ramp * (1 + (final - 1) * part))
        wave = 0.5 * (1 + math.cos(math.pi * part))
        assert factors(Cosine(warmup=warmup, final=final), 10)[t - 1] == pytest.approx(
            ramp * (final + (1 - final) * wave)
        )


@pytest.mark.parametrize("schedule", [Constant, Linear, Cosine])
def test_a_share_of_the_steps_is_so_many_steps(schedule) -> None:
    assert factors(schedule(warmup_share=0.05), 60) == factors(schedule(warmup=3), 60)
    assert factors(schedule(warmup_share=0.05), 4) == factors(schedule(), 4)
    with pytest.raises(ConfigError, match="warmup_share: the warm-up is given in steps, too"):
        schedule(warmup=3, warmup_share=0.05)
