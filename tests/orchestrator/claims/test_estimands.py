"""The mean over seeds beside the median, and configurations of a random search in place of seeds."""

import numpy as np
import pytest
from scipy import stats

from orchestrator.errors import UserError
from orchestrator.statistics.intervals import estimate_mean
from tests.orchestrator.claims.conftest import Judge, claim, is_pre
from tests.orchestrator.claims.test_trends import RANDOM
from trainers.config.member import MemberConfig

DIFFERENCES = [0.0] * 7 + [-0.1, -0.4]


def few_differ(member: MemberConfig, metric: str, average: str, length: int, step: int) -> float:
    """Most seeds tie; two differ by much, so that mean and median disagree."""
    return 0.5 + DIFFERENCES[member.seed] * is_pre(member)


def test_a_mean_has_students_interval_and_test(judge_claims: Judge) -> None:
    expected = stats.ttest_1samp(DIFFERENCES, 0.0)
    judgement = judge_claims(few_differ, claim(statistic="mean"))["pre_norm"]
    assert judgement.verdict == "undecided" and judgement.answer.n == 9
    assert judgement.answer.effect == pytest.approx(np.mean(DIFFERENCES), abs=1e-6)
    interval = expected.confidence_interval()
    assert (judgement.answer.low, judgement.answer.high) == pytest.approx((interval.low, interval.high), abs=1e-6)
    assert judgement.answer.p == pytest.approx(expected.pvalue, rel=1e-4)
    assert judgement.other_statistic_answer.effect == 0.0, "the median beside it"


def test_a_median_has_the_mean_over_all_seeds_beside_it(judge_claims: Judge) -> None:
    asked = claim(learned={"metric": "total_variation", "least": 0.45})
    judgement = judge_claims(few_differ, asked)["pre_norm"]
    assert (judgement.answer.n, judgement.answer.effect) == (9, 0.0) and judgement.learned_answer.n == 7
    assert judgement.other_statistic_answer.n == 9 and judgement.other_statistic_answer.effect == pytest.approx(
        0.0, abs=1e-6
    ), "two count as the worst, 0.5"
    plain = judge_claims(few_differ, claim())["pre_norm"]
    assert (
        plain.other_statistic_answer.effect == pytest.approx(np.mean(DIFFERENCES), abs=1e-6)
        and plain.measured_answer is None
    )


def test_unlearned_seeds_as_measured_stand_beside_the_verdict_and_decide_nothing(judge_claims: Judge) -> None:
    def clear(member: MemberConfig, *_: object) -> float:
        return 0.5 - is_pre(member) * (0.1 + 0.01 * member.seed)

    whole = judge_claims(clear, claim())["pre_norm"]
    judgement = judge_claims(clear, claim(learned={"metric": "total_variation", "least": 0.45}))["pre_norm"]
    assert whole.verdict == "held" and judgement.verdict_text.startswith("not tested: not learned")
    assert (judgement.measured_answer.effect, judgement.measured_answer.low, judgement.measured_answer.n) == (
        whole.answer.effect,
        whole.answer.low,
        9,
    )
    assert judgement.other_statistic_answer is None, "a mean over values of which half are made up"


def test_a_mean_that_lies_on_one_side_decides(judge_claims: Judge) -> None:
    def clear(member: MemberConfig, *rest: object) -> float:
        return 0.5 - is_pre(member) * (0.1 + 0.01 * member.seed)

    assert judge_claims(clear, claim(statistic="mean"))["pre_norm"].verdict == "held"
    assert judge_claims(clear, claim(statistic="mean", expect="larger"))["pre_norm"].verdict == "contradicted"
    assert (
        judge_claims(lambda member, *_: 0.5 - 0.25 * is_pre(member), claim(statistic="mean"))["pre_norm"].verdict
        == "held"
    )
    few = judge_claims(clear, claim(statistic="mean"), seeds=5)["pre_norm"]
    assert few.verdict_text == "not tested: 5 of 6 seeds"


def test_the_interval_of_a_mean_needs_six_finite_values() -> None:
    assert estimate_mean([]).n == 0 and np.isnan(estimate_mean([1.0, np.inf] * 4).value)
    assert estimate_mean([1.0] * 5).value == 1.0 and np.isnan(estimate_mean([1.0] * 5).low)
    assert estimate_mean([np.nan, *[1.0] * 6]).low == 1.0


SEARCH = RANDOM.replace("averages: {raw: {}}", "averages: {raw: {}, ema: {decay: 0.9}}")
AVERAGES = {
    "arms": {name: {"configurations": "all", "average": name} for name in ("ema", "raw")},
    "compare": ["ema", "raw"],
    "unit": "configurations",
}


def worse_by_dropout(member: MemberConfig, metric: str, average: str, length: int, step: int) -> float:
    """EMA is worse where dropout is above 0.1; seeds differ by more than that."""
    return 0.3 + 0.05 * member.seed + (member.model.dropout - 0.1) * (average == "ema")


def test_configurations_of_a_random_search_are_the_sample(judge_claims: Judge) -> None:
    judgement = judge_claims(worse_by_dropout, claim(**AVERAGES), seeds=2, sweep=SEARCH)["pre_norm"]
    expected = [
        configuration.values["model.dropout"] - 0.1 for configuration in judgement.sweep.state.configurations.values()
    ]
    assert (judgement.answer.n, judgement.answer.n_trained, judgement.answer.unit) == (30, 30, "configurations")
    assert judgement.answer.effect == pytest.approx(np.median(expected), abs=1e-5)
    above = int((np.array(expected) > 0).sum())
    assert judgement.answer.p == pytest.approx(stats.binomtest(above, 30).pvalue)
    assert judgement.verdict == "contradicted" and judgement.other_statistic_answer is None


def test_configurations_of_a_grid_are_not_a_sample(judge_claims: Judge) -> None:
    with pytest.raises(UserError, match="needs a random search"):
        judge_claims(lambda *_: 0.1, claim(**AVERAGES))
