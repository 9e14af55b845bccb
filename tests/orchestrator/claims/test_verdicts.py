"""The verdicts: planted effects are held, reversed ones contradicted, noise decides nothing, and reasons are said."""

from typing import Any

import numpy as np
import pytest

from orchestrator.claims.repeated_tests import group_tests
from orchestrator.claims.verdicts import count_verdicts
from orchestrator.errors import UserError
from tests.orchestrator.claims.conftest import CLAIM, NONE, PRE, Judge, Value, claim, is_pre
from trainers.config.member import MemberConfig


def planted(effect: float, noise: float = 0.01) -> Value:
    """An effect of pre-norm at every length, and noise that differs between members."""

    def value(member: MemberConfig, metric: str, average: str, length: int, step: int) -> float:
        drawn = np.random.default_rng([member.seed, is_pre(member)]).normal()
        return 0.4 + effect * is_pre(member) + noise * drawn

    return value


@pytest.mark.parametrize(
    ("effect", "changes", "verdict"),
    [
        (-0.1, {}, "held"),
        (0.1, {}, "contradicted"),
        (0.0, {}, "undecided"),
        (0.1, {"expect": "larger"}, "held"),
        (-0.1, {"expect": "larger"}, "contradicted"),
        (-0.1, {"negligible": 0.01}, "held"),
    ],
)
def test_a_planted_effect_is_held_a_reversed_one_contradicted_and_noise_undecided(
    judge_claims: Judge, effect: float, changes: dict[str, Any], verdict: str
) -> None:
    judgement = judge_claims(planted(effect), claim(**changes))["pre_norm"]
    assert judgement.verdict == verdict and (judgement.answer.low < 0 < judgement.answer.high) == (effect == 0)


@pytest.mark.parametrize("effect", [-0.001, 0.0])
def test_a_tiny_effect_is_none_within_what_is_negligible(judge_claims: Judge, effect: float) -> None:
    judgement = judge_claims(planted(effect, noise=0.0005), claim(negligible=0.01))["pre_norm"]
    assert judgement.verdict_text == "no effect within ±0.01" and judgement.answer.p == pytest.approx(0.5**9)


def test_fewer_than_six_seeds_are_counted_and_decide_nothing(judge_claims: Judge) -> None:
    judgement = judge_claims(planted(-0.1), claim(), seeds=5)["pre_norm"]
    assert judgement.verdict_text == "not tested: 5 of 6 seeds"
    assert judgement.answer.effect < -0.05 and np.isnan(judgement.answer.low)


def test_seeds_that_failed_count_as_the_worst(judge_claims: Judge) -> None:
    def value(member: MemberConfig, metric: str, average: str, length: int, step: int) -> float:
        failed = member.seed >= 5 and is_pre(member)
        return float("nan") if failed else planted(-0.1)(member, metric, average, length, step)

    judgement = judge_claims(value, claim())["pre_norm"]
    assert judgement.verdict == "undecided" and judgement.answer.n == 9
    assert judgement.answer.high > 0 > judgement.answer.low
    assert judgement.sweep.failed_count == 8, "at both learning rates"


@pytest.mark.parametrize("key", ["minus", "over"])
def test_a_failed_seed_of_a_computed_arm_may_have_any_value(judge_claims: Judge, key: str) -> None:
    """Two of nine failed: those that are left are all on one side, but no longer enough to decide."""

    def value(member: MemberConfig, metric: str, average: str, length: int, step: int) -> float:
        failed = member.seed < 2 and is_pre(member)
        return float("nan") if failed else planted(-0.1)(member, metric, average, length, step)

    arms = {"pre": {**PRE, key: "half"}, "none": {**NONE, key: "half"}, "half": {**NONE, "metric": "invalid_mass"}}
    judgement = judge_claims(value, claim(arms=arms))["pre_norm"]
    assert judgement.answer.n == 9 and judgement.answer.low == -np.inf and judgement.answer.high == np.inf
    assert judgement.answer.p == pytest.approx(0.18, abs=0.01) and judgement.verdict == "undecided"


def test_seeds_that_did_not_learn_count_as_the_worst_and_the_others_are_shown_beside(judge_claims: Judge) -> None:
    def value(member: MemberConfig, metric: str, average: str, length: int, step: int) -> float:
        unlearned = member.seed < 4 and not is_pre(member)
        return 0.9 if unlearned else planted(-0.1)(member, metric, average, length, step) * (0.1 if length < 5 else 1)

    judgement = judge_claims(value, claim(learned={"metric": "total_variation", "most": 0.1}))["pre_norm"]
    assert judgement.verdict_text == "not tested: not learned (pre 9 of 9, none 5 of 9 seeds)"
    assert judgement.answer.n == 9 and judgement.learned_answer.n == 5


def test_what_rests_on_a_control_is_not_tested_unless_it_holds(judge_claims: Judge) -> None:
    control = claim(id="control", arms={"a": {**PRE}}, compare=["a"], question="bound", bound=0.35)
    chained = claim(id="last", control="pre_norm")
    good = judge_claims(planted(-0.1), control, claim(control="control"), chained)
    assert [judgement.verdict_text for judgement in good.values()] == ["held"] * 3
    bad = judge_claims(planted(-0.03), control, claim(control="control"), chained)
    assert bad["control"].verdict in ("undecided", "contradicted")
    assert bad["pre_norm"].verdict_text == f"not tested: its control control is {bad['control'].verdict}"
    assert bad["last"].verdict_text == "not tested: its control pre_norm is not tested"
    open_one = claim(id="control", question="share", success={"most": 0.5}, bound=0.99, arms={"a": PRE}, compare=["a"])
    rests = judge_claims(planted(-0.1), {**open_one, "expect": "larger"}, claim(control="control"))
    assert rests["pre_norm"].verdict_text == "not tested: its control control is undecided"
    assert bad["pre_norm"].answer is not None, "the numbers stay"


def test_more_seeds_are_not_asked_for_a_claim_that_is_asked_again(judge_claims: Judge) -> None:
    other = claim(id="fresh", sweep="elsewhere")
    assert judge_claims(planted(-0.1), claim(asked_again="fresh"), other)["pre_norm"].verdict_text == "held"
    seeds = judge_claims(planted(-0.1), claim(asked_again="fresh"), other, seeds=5)["pre_norm"]
    assert seeds.verdict_text == "not tested: 5 of 6 seeds"

    def disagree(member: MemberConfig, metric: str, average: str, length: int, step: int) -> float:
        return 0.3 + (0.1 if member.seed % 2 else -0.1) * is_pre(member)

    again, once = (judge_claims(disagree, claim(asked_again=name), other)["pre_norm"] for name in ("fresh", None))
    assert again.verdict == once.verdict == "undecided" and (again.seeds_needed, once.seeds_needed) == (None, 0)


def test_claims_are_counted_by_source_and_a_repeated_one_once_by_its_last_test(judge_claims: Judge) -> None:
    def disagree(member: MemberConfig, metric: str, average: str, length: int, step: int) -> float:
        sign = 0.1 if metric == "total_variation" and member.seed % 2 else -0.1
        return 0.3 + sign * is_pre(member)

    judgements = list(
        judge_claims(
            disagree,
            claim(asked_again="second"),
            claim(id="second", metric="invalid_mass", asked_again="third"),
            claim(id="third", metric="invalid_mass"),
            claim(id="other"),
            claim(id="tiny", metric="invalid_mass", negligible=0.15, source="ours"),
            claim(id="missing", sweep="elsewhere", source="ours"),
        ).values()
    )
    assert [judgement.verdict for judgement in judgements[:3]] == ["held", "held", "held"]
    assert [[judgement.claim.id for judgement in tests] for tests in group_tests(judgements)] == [
        ["pre_norm", "second", "third"], ["other"], ["tiny"], ["missing"],
    ]  # fmt: skip
    assert count_verdicts(judgements, "paper") == ({"held": 1, "undecided": 1},) * 2
    assert count_verdicts(judgements, "ours") == ({"no effect": 1, "not tested": 1},) * 2


def test_tests_of_the_same_claim_count_as_one_claim(judge_claims: Judge) -> None:
    def disagree(member: MemberConfig, metric: str, *_: object) -> float:
        sign = 0.1 if metric == "total_variation" and member.seed % 2 else -0.1
        return 0.3 + sign * is_pre(member)

    held, undecided = {"metric": "invalid_mass"}, {"metric": "total_variation"}
    judgements = list(
        judge_claims(
            disagree,
            claim(id="clear", **held),
            claim(id="clear_again", **held, same_as="clear"),
            claim(id="not_run", sweep="elsewhere", same_as="clear"),
            claim(id="other", **held),
            claim(id="other_way", **undecided, same_as="other"),
            claim(id="nowhere", sweep="elsewhere"),
            claim(id="nowhere_either", sweep="elsewhere", same_as="nowhere"),
        ).values()
    )
    assert count_verdicts(judgements, "paper") == (
        {"held": 1, "mixed": 1, "not tested": 1},
        {"held": 3, "undecided": 1, "not tested": 3},
    )
    assert count_verdicts(judgements, "ours") == ({}, {})


def test_a_missing_or_unfinished_sweep_is_reported(judge_claims: Judge) -> None:
    others = [claim(id="other", sweep="elsewhere"), claim(id="typed", sweep=CLAIM["sweep"][:-1])]
    judgements = judge_claims(planted(-0.1), claim(), *others, end=False)
    assert judgements["pre_norm"].verdict_text == "not tested: the sweep is not finished"
    assert judgements["other"].verdict_text == "not tested: the sweep was not run"
    assert judgements["typed"].verdict_text == f"not tested: the sweep was not run; did you mean {CLAIM['sweep']}?"


def test_among_many_claims_a_small_p_decides_no_longer(judge_claims: Judge) -> None:
    """Six seeds that all agree have p = 2 / 64: alone they decide, beside another claim they do not."""
    alone = judge_claims(planted(-0.1), claim(), seeds=6)["pre_norm"]
    assert alone.verdict_text == "held" and alone.holm_p == pytest.approx(2 / 64)
    judgement = judge_claims(planted(-0.1), claim(), claim(id="again"), seeds=6)["pre_norm"]
    assert judgement.verdict == "undecided" and judgement.holm_p == pytest.approx(0.0625)
    unrun = judge_claims(planted(-0.1), claim(), claim(id="again", sweep="elsewhere"), seeds=6)["pre_norm"]
    assert judgement.holm_p == unrun.holm_p == pytest.approx(4 / 64)


def test_pairs_are_seeds_not_ranks(judge_claims: Judge) -> None:
    """Seeds differ far more than arms do: only seed by seed is the effect clear."""

    def value(member: MemberConfig, *_: object) -> float:
        return 0.1 * ((member.seed * 4) % 9) - 0.01 * is_pre(member)

    judgement = judge_claims(value, claim())["pre_norm"]
    assert judgement.verdict_text == "held"
    assert (judgement.answer.low, judgement.answer.high) == pytest.approx((-0.01, -0.01), abs=1e-6)


def no_such_arm(where: dict[str, Any]) -> dict[str, Any]:
    return {"arms": {"pre": {"where": where}, "none": NONE}}


def test_arms_that_name_what_is_not_there_are_refused(judge_claims: Judge) -> None:
    for changes, message in (
        ({"metric": "total_variations"}, "total_variations is not a known metric; .*did you mean total_variation"),
        ({"average": "emma"}, "emma is not a known average; allowed: .*did you mean ema"),
        ({"lengths": [5, 99]}, "total_variation is not measured at length 99; allowed: 1-9"),
        (no_such_arm({"model.norm": "both"}), "no configuration has model.norm: both; allowed: none, pre"),
        (no_such_arm({"model.nrm": "pre"}), "no configuration has the key model.nrm; did you mean model.norm?"),
        (no_such_arm({"gibberish": 1}), "no configuration has the key gibberish; searched keys: "),
        (no_such_arm({"model.norm": "pre", "training.learning_rate": 1}), "learning_rate: 1; allowed: 0.001, 0.003"),
        ({"question": "trend", "compare": ["all"], "arms": {"all": {"configurations": "all"}}, "key": "model.width"},
         "model.width was not searched"),
    ):  # fmt: skip
        with pytest.raises(UserError, match=message):
            judge_claims(planted(0.0), claim(**changes))
