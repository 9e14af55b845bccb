"""Steps until a task is solved, and cycles: ratios with known answers, and what the claims make of planted values."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from orchestrator.studies.claims import NOT_TESTABLE, Claim
from orchestrator.studies.inductive_scratchpad.claims import longer_ways
from orchestrator.studies.inductive_scratchpad.graphs import KINDS, RANDOM_GRAPHS, shortcut, shortcut_figure
from orchestrator.studies.inductive_scratchpad.measures import EXACT, FULL, INDUCTIVE, LABEL, NONE, OFFSETS
from orchestrator.studies.inductive_scratchpad.speed import CYCLES, HALF_PARITY, cycles, half_parity
from orchestrator.studies.inductive_scratchpad.steps import STEPS, arms_by_size, ratio, reached, steps, steps_figure
from orchestrator.studies.measures import Sweep
from orchestrator.studies.studies import SEARCH_SPACES
from trainers.config.member import MemberConfig

NEVER = math.inf
PROBED = [f"{kind}.cycles" for kind in KINDS]
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
        return pretend(file, folder, values, evaluations=1, seeds=6, more=PROBED if name == RANDOM_GRAPHS else ())

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


def test_cycles_are_compared_with_no_scratchpad_and_beyond_the_trained_steps(pretended) -> None:
    steps_of = {INDUCTIVE: 500, FULL: 700, NONE: NEVER}
    exact = {INDUCTIVE: 0.95, FULL: 0.0, NONE: 0.5}

    def planted(member: MemberConfig, metric: str) -> list[float]:
        task, noise = member.task, 0.001 * member.seed
        if metric == STEPS:
            return [steps_of[task.scratchpad], NEVER]
        shifted = 0.3 if task.random_offsets else exact[task.scratchpad]
        return [1.0, {EXACT: shifted, LABEL: 0.7}.get(metric, 0.0) + noise * (metric == EXACT)]

    sweep = pretended(CYCLES, planted)
    assert {arm.kind for arm in arms_by_size(sweep)} == {INDUCTIVE, FULL, OFFSETS, NONE}
    assert answers(cycles(sweep)) == ["held"] * 4
    held = ["held", "not decided"] * 2, ["held", "held", "did not hold"]
    assert answers(longer_ways(sweep)) == [*held[0], *held[1]], "labels are equal; 30 % are more than 10 %"
    steps_figure(sweep)


def test_a_full_scratchpad_that_did_not_learn_is_compared_with_nothing(pretended) -> None:
    def planted(member: MemberConfig, metric: str) -> list[float]:
        right = 0.95 if member.task.scratchpad == INDUCTIVE else 0.5
        return [NEVER, NEVER] if metric == STEPS else [right, right]

    claim = longer_ways(pretended(CYCLES, planted))
    assert answers(claim) == [NOT_TESTABLE] * 4 + ["held"] + [NOT_TESTABLE] * 2
    assert "the other 0, both 0 of 6" in claim.parts[0].effect


def test_a_shortcut_is_right_in_distribution_and_chance_on_cycles(pretended) -> None:
    def answered(inside: float, outside: float) -> list[str]:
        def planted(member: MemberConfig, metric: str) -> list[float]:
            value = 0.01 * (member.seed - 2.5) + (outside if metric.endswith(".cycles") else inside)
            return [value if length in member.task.trained_lengths or ".cycles" in metric else math.nan
                    for length in member.evaluated_lengths]  # fmt: skip

        sweep = pretended(RANDOM_GRAPHS, planted)
        shortcut_figure(sweep)
        return answers(shortcut(sweep))

    assert answered(0.8, 0.5) == ["held"] * 3
    assert answered(0.8, 0.8) == ["held", "did not hold", "not decided"], "no shortcut"
    assert answered(0.5, 0.5) == ["not decided", NOT_TESTABLE, NOT_TESTABLE], "not learned"
