"""Steps until a task is solved, and cycles: ratios with known answers, and what the claims make of planted values."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from orchestrator.studies.claims import Claim
from orchestrator.studies.inductive_scratchpad.measures import FULL, INDUCTIVE, NONE
from orchestrator.studies.inductive_scratchpad.speed import CYCLES, HALF_PARITY, cycles, half_parity
from orchestrator.studies.inductive_scratchpad.steps import STEPS, arms_by_size, ratio, reached, steps, steps_figure
from orchestrator.studies.measures import Sweep
from orchestrator.studies.studies import SEARCH_SPACES
from trainers.config.member import MemberConfig

NEVER = math.inf
Planted = Callable[[MemberConfig, str], list[float]]
"""Of a member and a metric, the value at every length."""


@pytest.fixture
def pretended(tmp_path: Path, pretend: Callable[..., Sweep]) -> Callable[[str, Planted], Sweep]:
    """A sweep of six seeds with planted values."""

    def make(name: str, planted: Planted) -> Sweep:
        def values(member: MemberConfig, number: int, metrics: tuple[str, ...], step: int) -> np.ndarray:
            return np.array([[planted(member, metric) for metric in metrics]])

        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        file = SEARCH_SPACES / "inductive_scratchpad" / f"{name}.yaml"
        return pretend(file, folder, values, evaluations=1, seeds=6)

    return make


def by_size(*of_sizes: list[float]) -> Planted:
    """Steps of half-parity by size and seed."""
    steps_of = dict(zip((4, 8, 16), of_sizes, strict=True))
    return lambda member, metric: [steps_of[member.task.size][member.seed] if metric == STEPS else 0.5]


def answers(claim: Claim) -> list[str]:
    return [part.answer for part in claim.parts]


def test_a_ratio_allows_for_the_steps_between_evaluations_and_for_seeds_that_never_got_there(pretended) -> None:
    sweep = pretended(HALF_PARITY, by_size([100] * 6, [NEVER] * 6, [600] * 5 + [NEVER]))
    assert (sweep.steps, sweep.state.spec["evaluation"]["every"]) == (800, 10)
    small, never, large = (steps(sweep, arm) for arm in arms_by_size(sweep))
    found = ratio(sweep, large, small)  # solved in (590, 600] and in (90, 100]
    assert (found.least, found.most) == (pytest.approx(590 / 100), pytest.approx(600 / 90)), (
        "in (590, 600], in (90, 100]"
    )
    assert (found.low, found.high, found.n) == (pytest.approx(590 / 100), NEVER, 6)
    assert "5.9 to 6.67 [5.9, inf], n = 6 seeds" in str(found)
    back = ratio(sweep, small, large)
    assert (back.low, back.high) == (0, pytest.approx(100 / 590))
    assert ratio(sweep, never, small).low == 800 / 100 and str(ratio(sweep, never, small)).startswith("ratio above 8 ")
    assert ratio(sweep, never, never).below(1) == ratio(sweep, never, never).below(9) == "not decided"
    assert math.isnan(ratio(sweep, small[:5], large).low), "of five seeds there is no interval"
    assert [reached(sweep, arm) for arm in arms_by_size(sweep)] == [(6, 6), (0, 6), (5, 6)]
    steps_figure(sweep)


def test_seeds_that_failed_are_in_no_ratio(pretended) -> None:
    sweep = pretended(HALF_PARITY, by_size([100] * 6, [100] * 6, [math.nan, *[600] * 5]))
    small, _, large = arms_by_size(sweep)
    assert ratio(sweep, steps(sweep, large), steps(sweep, small)).n == 5
    assert reached(sweep, large) == (5, 6)


def test_mild_growth_is_found_steep_growth_refused_and_what_is_not_known_undecided(pretended) -> None:
    def answered(small: list[float], large: list[float]) -> list[str]:
        return answers(half_parity(pretended(HALF_PARITY, by_size(small, small, large))))

    assert answered([60] * 6, [120] * 6) == ["held", "held", "held"]
    assert answered([60] * 6, [240] * 6) == ["held", "held", "not decided"], "230 / 60 to 240 / 50 has 4 inside"
    assert answered([20] * 6, [NEVER] * 6) == ["did not hold"] * 3
    assert answered([60] * 6, [120] * 5 + [NEVER]) == ["not decided"] * 3
    assert answered([NEVER] * 6, [NEVER] * 6) == ["did not hold", "not decided", "not decided"]


def test_cycles_are_compared_with_no_scratchpad(pretended) -> None:
    def answered(full: list[float], inductive: list[float], none: list[float]) -> list[str]:
        steps_of = {FULL: full, INDUCTIVE: inductive, NONE: none}

        def planted(member: MemberConfig, metric: str) -> list[float]:
            return [steps_of[member.task.scratchpad][member.seed] if metric == STEPS else 0.5]

        sweep = pretended(CYCLES, planted)
        steps_figure(sweep)
        return answers(cycles(sweep))

    assert answered([500] * 6, [400] * 6, [NEVER] * 6) == ["held"] * 4
    assert answered([500] * 6, [NEVER] * 6, [200] * 6) == ["did not hold", "did not hold", "held", "did not hold"]
    assert answered([500] * 5 + [NEVER], [500] * 6, [500] * 6) == ["not decided", "not decided", "not decided", "held"]
