"""Steps until a task is solved: ratios with known answers, and what the claims about them make of planted ones."""

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from orchestrator.studies.inductive_scratchpad.speed import HALF_PARITY, half_parity
from orchestrator.studies.inductive_scratchpad.steps import STEPS, arms_by_size, ratio, reached, steps, steps_figure
from orchestrator.studies.measures import Sweep
from orchestrator.studies.studies import SEARCH_SPACES
from trainers.config.member import MemberConfig

NEVER = math.inf
Planted = dict[tuple[str, int], list[float]]
"""By scratchpad and size the steps of each seed, 0 being the first."""


@pytest.fixture
def pretended(tmp_path: Path, pretend: Callable[..., Sweep]) -> Callable[[Planted], Sweep]:
    """Half-parity with planted steps, evaluated every 20 of 1000."""

    def make(planted: Planted) -> Sweep:
        def values(member: MemberConfig, number: int, metrics: tuple[str, ...], step: int) -> np.ndarray:
            of_seeds = planted[member.task.scratchpad, member.task.size]
            return np.array([[[of_seeds[member.seed] if metric == STEPS else 0.5] for metric in metrics]])

        file = SEARCH_SPACES / "inductive_scratchpad" / f"{HALF_PARITY}.yaml"
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        return pretend(file, folder, values, evaluations=1, seeds=6)

    return make


def planted(*, small: list[float], large: list[float], without: list[float]) -> Planted:
    return {("full", 8): small, ("full", 16): small, ("full", 24): large, ("none", 16): without}


def answers(sweep: Sweep) -> list[str]:
    return [part.answer for part in half_parity(sweep).parts]


def test_a_ratio_allows_for_the_steps_between_evaluations_and_for_seeds_that_never_got_there(pretended) -> None:
    large = [600, 600, 600, 600, 600, NEVER]
    sweep = pretended(planted(small=[100] * 6, large=large, without=[NEVER] * 6))
    assert (sweep.steps, sweep.state.spec["evaluation"]["every"]) == (1000, 20)
    one, _, three, none = (steps(sweep, arm) for arm in arms_by_size(sweep))
    found = ratio(sweep, three, one)
    assert (found.least, found.most) == (580 / 100, 600 / 80), "solved in (580, 600] and in (80, 100]"
    assert (found.low, found.high, found.n) == (580 / 100, NEVER, 6)
    assert "5.8 to 7.5 [5.8, inf], n = 6 seeds" in str(found)
    back = ratio(sweep, one, three)
    assert (back.low, back.high) == (0, pytest.approx(100 / 580))
    assert ratio(sweep, none, one).low == 1000 / 100 and str(ratio(sweep, none, one)).startswith("ratio above 10 ")
    assert ratio(sweep, none, none).below(1) == ratio(sweep, none, none).below(9) == "not decided"
    assert math.isnan(ratio(sweep, one[:5], three).low), "of five seeds there is no interval"
    assert [reached(sweep, arm) for arm in arms_by_size(sweep)] == [(6, 6), (6, 6), (5, 6), (0, 6)]
    steps_figure(sweep)


def test_seeds_that_failed_are_in_no_ratio(pretended) -> None:
    sweep = pretended(planted(small=[100] * 6, large=[math.nan, *[600] * 5], without=[NEVER] * 6))
    small, _, large, _ = arms_by_size(sweep)
    assert ratio(sweep, steps(sweep, large), steps(sweep, small)).n == 5
    assert reached(sweep, large) == (5, 6)


def test_planted_steps_are_found(pretended) -> None:
    mild = pretended(planted(small=[60] * 6, large=[160] * 6, without=[NEVER] * 6))
    assert answers(mild) == ["held", "held", "not decided", "held"], "140 / 60 to 160 / 40 has 3 inside"


def test_what_grows_fast_is_refused_and_what_is_not_known_stays_undecided(pretended) -> None:
    steep = pretended(planted(small=[60] * 6, large=[NEVER] * 6, without=[20] * 6))
    assert answers(steep) == ["did not hold", "did not hold", "did not hold", "did not hold"]
    mixed = pretended(planted(small=[60] * 6, large=[160, 160, 160, 160, 160, NEVER], without=[60] * 6))
    assert answers(mixed) == ["not decided", "not decided", "not decided", "not decided"]


def test_where_nothing_was_solved_growth_is_unknown(pretended) -> None:
    nothing = pretended(planted(small=[NEVER] * 6, large=[NEVER] * 6, without=[NEVER] * 6))
    assert answers(nothing) == ["did not hold", "not decided", "not decided", "not decided"]
    assert "unknown" in half_parity(nothing).parts[1].effect
