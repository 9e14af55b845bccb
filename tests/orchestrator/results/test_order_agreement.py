"""Whether the test lengths put other configurations first."""

import math

import pytest
from scipy import stats

from orchestrator.results.analysis import measure_agreement
from orchestrator.statistics.effects.design import Design
from orchestrator.statistics.intervals import estimate_correlation

SCORES = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4, "e": 0.5}
DRAWN = Design.random("abcde")
TEST = {"a": 0.5, "b": 0.7, "c": 0.2, "d": 0.45, "e": 0.9}


def test_the_others_that_are_better_are_named_the_most_first():
    agreement = measure_agreement(SCORES, TEST, "minimize", DRAWN)
    assert agreement.better == (("c", pytest.approx(0.3)), ("d", pytest.approx(0.05))) and agreement.others == 4
    expected = stats.spearmanr(list(SCORES.values()), list(TEST.values())).statistic
    assert agreement.correlation.value == pytest.approx(expected)
    assert agreement.correlation == estimate_correlation(list(SCORES.values()), list(TEST.values()), "configurations")


def test_it_follows_the_direction_and_equals_are_not_better():
    agreement = measure_agreement(SCORES, TEST, "maximize", DRAWN)
    assert [name for name, _ in agreement.better] == ["e", "b"]
    assert measure_agreement({"a": 1.0, "b": 2.0}, {"a": 0.5, "b": 0.5}, "minimize", DRAWN).better == ()


def test_a_first_without_a_finite_median_is_worse_by_infinity():
    agreement = measure_agreement(
        {"a": 1.0, "b": 2.0, "c": 3.0}, {"a": math.inf, "b": 0.5, "c": math.inf}, "minimize", DRAWN
    )
    assert agreement.better == (("b", math.inf),)
    for direction, sign in (("minimize", 1), ("maximize", -1)):
        agreement = measure_agreement({"a": sign, "b": 2 * sign}, {"a": math.nan, "b": 0.5}, direction, DRAWN)
        assert agreement.better == (("b", math.inf),)


@pytest.mark.parametrize(
    ("kind", "given"), [("random", True), ("grid_by_random", False), ("fixed", False), ("adaptive", False)]
)
def test_only_configurations_that_were_drawn_one_by_one_have_an_interval(kind, given):
    scores = {f"{number}": 0.1 * number for number in range(12)}
    test = {name: score + (0.15 if name in "258" else 0.0) for name, score in scores.items()}
    correlation = measure_agreement(scores, test, "minimize", Design(kind=kind)).correlation
    assert (not math.isnan(correlation.low)) == given == (correlation.reason is None)
    assert (
        correlation.value == estimate_correlation(list(scores.values()), list(test.values())).value
        and correlation.n == 12
    )
