"""The seven questions against computations of their own: scipy's tests, and published formulas by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from orchestrator.claims.seed_tests import Answer
from tests.orchestrator.claims.conftest import NONE, PRE, STEPS, SWEEP, Judge, Value, claim, is_pre
from trainers.config.member import MemberConfig

ARMS = {"pre": PRE, "none": NONE}
DRAWN = np.random.default_rng(7).normal(size=(2, 9)) / 10 + [[0.2], [0.3]]


def by_seed(*arms: list[float] | np.ndarray) -> Value:
    """Of pre-norm the first values, one a seed, and of no norm the second; the same at every length."""

    def value(member: MemberConfig, metric: str, average: str, length: int, step: int) -> float:
        return float(arms[0 if is_pre(member) else 1][member.seed])

    return value


def one_answer(judge_claims: Judge, value: Value, **changes: object) -> Answer:
    answer = judge_claims(value, claim(**changes))["pre_norm"].answer
    return answer


def test_a_difference_is_the_median_with_its_order_statistics_and_the_sign_test(judge_claims: Judge) -> None:
    answer = one_answer(judge_claims, by_seed(*DRAWN))
    differences = np.sort((DRAWN[0] - DRAWN[1]).astype(np.float32))
    assert answer.effect == pytest.approx(np.median(differences), abs=1e-6)
    assert (answer.low, answer.high) == pytest.approx((differences[1], differences[7]), abs=1e-6)
    assert answer.p == pytest.approx(stats.binomtest(int((differences > 0).sum()), 9).pvalue)
    assert stats.binom.cdf(1, 9, 0.5) * 2 <= 0.05 < stats.binom.cdf(2, 9, 0.5) * 2, "so the second and the eighth"


def test_a_bound_is_the_same_of_one_arm_against_a_number(judge_claims: Judge) -> None:
    answer = one_answer(judge_claims, by_seed(*DRAWN), arms={"pre": PRE}, compare=["pre"], question="bound", bound=0.15)
    values = np.sort(DRAWN[0])
    assert (answer.low, answer.high) == pytest.approx((values[1], values[7]), abs=1e-6)
    assert answer.null == 0.15 and answer.p == pytest.approx(stats.binomtest(int((values > 0.15).sum()), 9).pvalue)


def test_an_equivalence_is_two_one_sided_sign_tests(judge_claims: Judge) -> None:
    values = [0.01, 0.02, -0.01, 0.0, 0.005, -0.02, 0.015, 0.03, 0.2]  # one beyond 0.05
    asked = {"question": "equivalence", "within": 0.05, "expect": None}
    judgement = judge_claims(by_seed(values, [0.0] * 9), claim(**asked))["pre_norm"]
    below = stats.binomtest(8, 9, 0.5, "greater").pvalue
    assert judgement.answer.p == pytest.approx(max(below, stats.binomtest(9, 9, 0.5, "greater").pvalue))
    assert judgement.verdict_text == "held"
    for values, words in (([1.02] * 9, "held"), ([1.2] * 9, "contradicted")):
        around = claim(**asked, arms={"pre": PRE}, compare=["pre"], around=1.0)
        assert judge_claims(by_seed(values, [0.0] * 9), around)["pre_norm"].verdict_text == words
    apart = judge_claims(by_seed([0.4] * 9, [0.2] * 9), claim(**asked))["pre_norm"]
    assert apart.verdict == "contradicted", "all nine seeds are 0.2 apart"


@pytest.mark.parametrize("hits", [0, 7, 9])
def test_a_share_has_the_interval_of_clopper_and_pearson(judge_claims: Judge, hits: int) -> None:
    values = [0.1] * hits + [0.9] * (9 - hits)
    asked = {"arms": {"pre": PRE}, "compare": ["pre"], "question": "share", "success": {"most": 0.5}}
    answer = one_answer(judge_claims, by_seed(values, values), **asked, expect="larger", bound=0.5)
    low = stats.beta.ppf(0.025, hits, 10 - hits) if hits else 0.0
    high = stats.beta.ppf(0.975, hits + 1, 9 - hits) if hits < 9 else 1.0
    assert (answer.effect, answer.low, answer.high) == pytest.approx((hits / 9, low, high))
    assert answer.p == pytest.approx(stats.binomtest(hits, 9).pvalue) and answer.detail == f"{hits} of 9"


def wilson(hits: int, n: int) -> tuple[float, float]:
    """Wilson's interval, as it is printed."""
    z, p = stats.norm.ppf(0.975), hits / n
    middle, half = p + z**2 / (2 * n), z * math.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    return (middle - half) / (1 + z**2 / n), (middle + half) / (1 + z**2 / n)


def test_two_shares_have_fishers_test_and_newcombes_interval(judge_claims: Judge) -> None:
    hits = (8, 2)
    value = by_seed(*([0.1] * k + [0.9] * (9 - k) for k in hits))
    answer = one_answer(judge_claims, value, question="fisher", success={"most": 0.5}, expect="larger")
    a, b = (k / 9 for k in hits)
    (low_a, high_a), (low_b, high_b) = (wilson(k, 9) for k in hits)
    assert answer.effect == pytest.approx(a - b)
    assert answer.low == pytest.approx(a - b - math.sqrt((a - low_a) ** 2 + (high_b - b) ** 2))
    assert answer.high == pytest.approx(a - b + math.sqrt((high_a - a) ** 2 + (b - low_b) ** 2))
    tables = [(x, 10 - x) for x in range(10) if 10 - x <= 9]  # ten successes over both arms, however they fall
    ways = {x: math.comb(9, x) * math.comb(9, y) / math.comb(18, 10) for x, y in tables}
    assert answer.p == pytest.approx(sum(p for p in ways.values() if p <= ways[8] * (1 + 1e-9)))
    assert answer.detail == "8 of 9 against 2 of 9"


ONE = {"arms": {"pre": PRE}, "compare": ["pre"]}


@pytest.mark.parametrize(
    "asked",
    [
        {"negligible": 0.01},
        {"question": "equivalence", "within": 0.1, "expect": None},
        {**ONE, "question": "bound", "bound": 0.2},
        {**ONE, "question": "share", "success": {"most": 0.2}},
        {"question": "fisher", "success": {"most": 0.25}},
        {"question": "ratio"},
    ],
)
def test_more_seeds_have_the_answer_of_the_same_seeds_repeated(judge_claims: Judge, asked: dict[str, object]) -> None:
    once, thrice = (
        judge_claims(by_seed(*np.tile(DRAWN, k)), claim(**asked), seeds=9 * k)["pre_norm"].answer for k in (1, 3)
    )
    assert (replace(once.extrapolate(9), n_trained=9), replace(once.extrapolate(27), n_trained=27)) == (once, thrice)


@pytest.mark.parametrize("worse", [1, 2, 3])
def test_more_seeds_answer_alike_in_both_directions(judge_claims: Judge, worse: int) -> None:
    values = [-0.1] * worse + [0.1] * (8 - worse)
    up, down = (
        judge_claims(by_seed([0.5 + sign * value for value in values], [0.5] * 8), claim(), seeds=8)["pre_norm"].answer
        for sign in (1, -1)
    )
    for n in range(8, 49):
        rising, falling = up.extrapolate(n), down.extrapolate(n)
        assert (rising.p, rising.effect, rising.low) == pytest.approx(
            (falling.p, -falling.effect, -falling.high), abs=1e-6
        )
        assert rising.n == n
    assert up.extrapolate(5).n == 8, "no seed is taken away"


def test_newcombes_published_example() -> None:
    """Newcombe (1998), table II, (a): 56/70 - 48/80, method 10: .0524 to .3339."""
    (low_a, high_a), (low_b, high_b) = wilson(56, 70), wilson(48, 80)
    a, b = 56 / 70, 48 / 80
    assert a - b - math.hypot(a - low_a, high_b - b) == pytest.approx(0.0524, abs=1e-4)
    assert a - b + math.hypot(high_a - a, b - low_b) == pytest.approx(0.3339, abs=1e-4)


def test_a_ratio_is_taken_seed_by_seed(judge_claims: Judge) -> None:
    answer = one_answer(judge_claims, by_seed(*DRAWN), question="ratio")
    ratios = np.sort(DRAWN[0] / DRAWN[1])
    assert answer.null == 1.0 and answer.effect == pytest.approx(np.median(ratios), rel=1e-5)
    assert (answer.low, answer.high) == pytest.approx((ratios[1], ratios[7]), rel=1e-5)


NEVER, FAILED = math.inf, math.nan


@pytest.mark.parametrize(
    ("small", "large", "bound", "verdict"),
    [
        ([60] * 6, [120] * 6, 4.0, "held"),
        ([60] * 6, [240] * 6, 4.0, "undecided"),  # 230 / 60 to 240 / 50 has 4 inside
        ([20] * 6, [NEVER] * 6, 4.0, "contradicted"),  # at least 800 / 20
        ([60] * 6, [120] * 5 + [NEVER], 4.0, "undecided"),
        ([60] * 6, [120] * 5 + [FAILED], 4.0, "undecided"),  # a failed seed never reached it
        ([FAILED] + [60] * 5, [120] * 5 + [FAILED], 4.0, "undecided"),
        ([NEVER] * 6, [NEVER] * 6, 4.0, "undecided"),
        ([10] * 6, [120] * 6, 4.0, "contradicted"),  # at least 110 / 10, at most infinite
    ],
)
def test_steps_that_are_not_known_exactly_have_two_ratios(
    judge_claims: Judge, small, large, bound, verdict, monkeypatch
) -> None:
    monkeypatch.setattr("tests.orchestrator.claims.conftest.USED", ("steps_to_exact_match", "exact_match"))

    def value(member: MemberConfig, metric: str, average: str, length: int, step: int) -> float:
        return float((small if member.task.size == 4 else large)[member.seed])

    arms = {f"n = {n}": {"where": {"task.size": n}} for n in (8, 4)}
    asked = {"question": "ratio", "arms": arms, "compare": list(arms), "lengths": "trained", "bound": bound}
    asked = claim(**asked, metric="steps_to_exact_match")
    judgement = judge_claims(value, asked, seeds=6, sweep=STEPS, evaluations=1)["pre_norm"]  # the last one is judged
    assert judgement.verdict == verdict
    small, large = ([NEVER if math.isnan(steps) else steps for steps in arm] for arm in (small, large))
    pairs = list(zip(large, small, strict=True))
    least = [(800 if b == NEVER else b - 10) / s for b, s in pairs]
    most = [math.inf if b == NEVER or s <= 10 else b / (800 if s == NEVER else s - 10) for b, s in pairs]
    assert (judgement.answer.low, judgement.answer.high) == pytest.approx((min(least), max(most)))
    between = (judgement.answer.least_effect, judgement.answer.effect)
    assert between == pytest.approx((np.median(least), np.median(most)))


@pytest.mark.parametrize(
    ("value", "changes", "verdict", "effect"),
    [
        (0.9, {"question": "share", "success": {"least": 0.9}, "expect": "larger"}, "held", 1.0),
        (0.9, {"question": "bound", "bound": 0.9, "expect": "larger"}, "undecided", 0.9),
        (0.1, {"question": "share", "success": {"most": 0.1}, "expect": "larger"}, "held", 1.0),
        (0.1, {"question": "bound", "bound": 0.1, "expect": "smaller"}, "undecided", 0.1),
        (0.9, {"question": "equivalence", "around": 1.0, "within": 0.1, "expect": None}, "undecided", 0.9),
        (0.8999, {"question": "share", "success": {"least": 0.9}, "expect": "larger"}, "contradicted", 0.0),
    ],
)
def test_values_at_a_threshold_meet_it_though_curves_are_float32(
    judge_claims: Judge, value, changes, verdict, effect
) -> None:
    asked = claim(arms={"pre": PRE}, compare=["pre"], **changes)
    judgement = judge_claims(lambda *_: value, asked)["pre_norm"]
    assert (judgement.verdict, judgement.answer.effect) == (verdict, pytest.approx(effect))


def test_groups_of_lengths_leave_out_what_any_configuration_has_trained_on(judge_claims: Judge) -> None:
    for lengths in ("[3, 6]", "[6, 3]"):
        sweep = SWEEP.replace("  model.norm: {grid: [none, pre]}\n", f"  task.train_length: {{grid: {lengths}}}\n")
        sweep = sweep.replace("objective: {metric: total_variation, average: raw, lengths: [5, 6]",
                              "objective: {metric: total_variation, average: raw, lengths: [7]")  # fmt: skip
        arms = {name: {"where": {"task.train_length": train_length, "training.learning_rate": 0.001}}
                for name, train_length in (("six", 6), ("three", 3))}  # fmt: skip
        judgement = judge_claims(lambda *_: 0.1, claim(arms=arms, compare=["six", "three"]), sweep=sweep)["pre_norm"]
        assert (
            judgement.arms["six"].lengths.columns.tolist() == judgement.arms["three"].lengths.columns.tolist() == [8, 9]
        )
        groups = judgement.sweep.groups
        assert (groups["trained"], groups["unseen"]) == ((1, 2, 3), (7, 8, 9))


def test_a_configuration_without_a_metric_has_no_part_in_its_lengths(judge_claims: Judge) -> None:
    members = judge_claims(lambda *_: 0.1, claim())["pre_norm"].sweep
    first, *others = members.measurements
    lacking = {name: metric for name, metric in members.measurements[first].metrics.items() if name != "invalid_mass"}
    members.measurements[first] = replace(members.measurements[first], metrics=lacking)
    assert members.resolve_lengths("unseen", ["invalid_mass"], others) == [5, 6, 7, 8, 9]


def test_minus_takes_the_ratio_of_an_arm_that_has_over(judge_claims: Judge) -> None:
    arms = {"a": {**PRE, "lengths": [8, 9], "minus": "b"}, "b": {**PRE, "lengths": [8, 9], "over": "c"}, "c": NONE}
    asked = claim(question="bound", bound=0.0, arms=arms, compare=["a"])
    judgement = judge_claims(by_seed([0.5] * 9, [0.2] * 9), asked)["pre_norm"]
    assert judgement.answer.effect == pytest.approx(0.5 - 0.5 / 0.2, abs=1e-6)


def test_seeds_that_never_got_there_in_either_arm_are_ties(judge_claims: Judge) -> None:
    never = [math.inf] * 10
    value = by_seed([*never, *[0.1] * 7], [*never, *[0.2] * 7])
    judgement = judge_claims(value, claim(), seeds=17)["pre_norm"]
    answer = judgement.answer
    assert (answer.n, answer.effect, answer.high) == (17, 0.0, 0.0) and judgement.verdict == "undecided"
    assert answer.low == pytest.approx(-0.1) and answer.p == pytest.approx(stats.binomtest(0, 7).pvalue)
    assert one_answer(judge_claims, value, question="ratio", bound=1.0).n == 9
    minus = claim(question="bound", bound=0.0, arms={"a": {**PRE, "minus": "b"}, "b": NONE}, compare=["a"])
    assert judge_claims(value, minus, seeds=17)["pre_norm"].answer.n == 17


def test_an_arm_of_several_configurations_can_take_away_a_single_one(judge_claims: Judge) -> None:
    arms = {
        "pre": {"where": {"model.norm": "pre"}, "configurations": "all", "minus": "none"},
        "none": {"where": {"model.norm": "none"}, "configurations": "best"},
    }
    asked = claim(question="bound", bound=0.0, expect="larger", arms=arms, compare=["pre"])
    judgement = judge_claims(by_seed([0.5] * 9, [0.2] * 9), asked)["pre_norm"]
    assert judgement.answer.effect == pytest.approx(0.3, abs=1e-6)
    assert (judgement.answer.n, judgement.verdict) == (9, "held")


def test_steps_are_known_to_an_evaluation_of_their_own_configuration(judge_claims: Judge, monkeypatch) -> None:
    monkeypatch.setattr("tests.orchestrator.claims.conftest.USED", ("steps_to_exact_match", "exact_match"))
    sweep = STEPS.replace("{task.size: {grid: [4, 8]}}", "{evaluation.every: {grid: [10, 200]}}")
    arms = {name: {"where": {"evaluation.every": every}} for name, every in (("coarse", 200), ("fine", 10))}
    asked = {"question": "ratio", "arms": arms, "compare": list(arms), "lengths": "trained", "bound": 1.0}

    def value(member: MemberConfig, metric: str, average: str, length: int, step: int) -> float:
        return 200.0 if member.evaluation.every == 200 else 150.0

    for every in (10, 200):
        written = sweep.replace("evaluation: {every: 10", f"evaluation: {{every: {every}")
        asked_steps = claim(**asked, metric="steps_to_exact_match", expect="larger")
        judgement = judge_claims(value, asked_steps, seeds=6, sweep=written)["pre_norm"]
        assert (judgement.answer.low, judgement.answer.high) == pytest.approx((0.0, 200 / 140))
        assert judgement.verdict == "undecided"
