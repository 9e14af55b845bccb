"""Schedules against their formulas."""

import math

import pytest
import torch

from trainers.config.member import MemberConfig
from trainers.errors import ConfigError
from trainers.optimization.schedules import Constant, Cosine, Linear


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
    with pytest.raises(ConfigError, match="warmup_share: the warm-up is also given in steps"):
        schedule(warmup=3, warmup_share=0.05)


def test_a_decay_of_its_own_length_may_end_after_the_last_step_or_before() -> None:
    """Learning rates from 3e-4 to 3e-5, as those of Abbe et al. (arXiv:2406.06467)."""
    rates = [3e-4 * factor for factor in factors(Cosine(final=0.1, decay_steps=5000), 2250)]
    assert rates[-1] == pytest.approx(1.86e-4, abs=5e-7) and rates[0] == pytest.approx(3e-4, rel=1e-6)
    assert 3e-4 * factors(Cosine(final=0.1, decay_steps=3000), 2000)[-1] == pytest.approx(9.75e-5, rel=1e-9)
    for kind in (Cosine, Linear):
        assert factors(kind(final=0.1, decay_steps=4, warmup=2), 9)[3:] == pytest.approx([0.1] * 6)
        assert factors(kind(final=0.1, decay_steps=9), 5) == factors(kind(final=0.1), 9)[:5]
        assert factors(kind(final=0.1, decay_steps=9), 9) == factors(kind(final=0.1), 9)


def test_a_decay_that_ends_in_the_warm_up_is_refused(sections) -> None:
    schedule = {"name": "cosine", "warmup": 5, "decay_steps": 5}
    with pytest.raises(
        ConfigError, match=r"training.schedule.decay_steps: the decay ends before the warm-up of 5 steps"
    ):
        MemberConfig.from_dict(sections(training__schedule=schedule))
