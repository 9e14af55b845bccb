"""The arms of a claim: which configurations, which seeds, and what is paired with what."""

import copy
import math

import numpy as np
import pytest

from orchestrator.claims.answers import answer_question
from orchestrator.claims.arm_values import compute_arms, compute_seed_medians
from orchestrator.claims.sweep_curves import SweepCurves
from orchestrator.claims.verdicts import Judgement
from orchestrator.errors import UserError
from tests.orchestrator.claims.conftest import NONE, PRE, Judge, claim, is_pre
from trainers.config.member import MemberConfig

ALL = {"pre": {"where": {"model.norm": "pre"}, "configurations": "all"},
       "none": {"where": {"model.norm": "none"}, "configurations": "all"}}  # fmt: skip


LEARNED = {"metric": "total_variation", "most": 0.1}


def rate(member: MemberConfig) -> float:
    return member.training.learning_rate


def values_of(judged: Judgement, arm: str) -> list[float]:
    return [round(float(value), 5) for value in judged.arms[arm].values]


def test_all_configurations_are_paired_by_the_seed_and_by_what_else_was_searched(judge_claims: Judge) -> None:
    """Rates differ by far more than norms, in levels and in which seeds are good."""

    def value(member: MemberConfig, metric: str, average: str, length: int, step: int) -> float:
        level = 1.0 if rate(member) == 0.001 else 0.1 * member.seed
        return level - (0.01 if rate(member) == 0.001 else 0.03) * is_pre(member)

    judgement = judge_claims(value, claim(arms=ALL))["pre_norm"]
    assert judgement.verdict_text == "held"
    assert (judgement.answer.low, judgement.answer.high) == pytest.approx((-0.02, -0.02), abs=1e-6), (
        "the middle of both rates"
    )
    assert judgement.answer.n == 9 and len(judgement.arms["pre"].config_ids) == 2, "seeds are counted, not members"


def test_a_seed_of_which_one_configuration_failed_counts(judge_claims: Judge) -> None:
    def value(member: MemberConfig, metric: str, average: str, length: int, step: int) -> float:
        if member.seed == 3 and rate(member) == 0.003 and not is_pre(member):
            return math.nan
        return 5.0 * is_pre(member) * (member.seed == 3) - 0.01 * is_pre(member)

    judgement = judge_claims(value, claim(arms=ALL))["pre_norm"]
    assert judgement.answer.n == 9 and judgement.answer.high < 0


def test_seeds_that_only_some_configurations_of_an_arm_have_are_left_out(judge_claims: Judge) -> None:
    """As after `extend --top`, which gives more seeds to the best ones."""

    def value(member: MemberConfig, metric: str, average: str, length: int, step: int) -> float:
        return 0.1 * member.seed

    asked = judge_claims(value, claim(arms=ALL))["pre_norm"]
    members, (first, *_) = asked.sweep, asked.arms["pre"].config_ids
    state = copy.deepcopy(members.state)
    for seed in range(4, 9):
        del state.configurations[first].members[seed]
    curves = members.curves[(members.curves["config_id"] != first) | (members.curves["seed"] < 4)]
    arms = compute_arms(asked.claim, SweepCurves(members.folder, state, curves, {}))
    assert (arms["pre"].seeds, arms["none"].seeds) == (4, 9)
    assert compute_seed_medians(arms["pre"].values).tolist() == pytest.approx([0.0, 0.1, 0.2, 0.3])
    assert answer_question(asked.claim, members, list(arms.values()), learned_only=False).n == 4


def test_configurations_that_are_no_pairs_are_refused(judge_claims: Judge) -> None:
    arms = {
        "none": {"where": {"model.norm": "none", "training.averages.ema.decay": 0.9}, "configurations": "all"},
        "pre": {"where": {"model.norm": "pre", "training.steps": 100}, "configurations": "all"},
    }
    assert judge_claims(lambda *_: 0.1, claim(arms=arms))["pre_norm"].answer is not None, "keys that were not searched"
    one_rate = {"configurations": "all", "where": {"model.norm": "pre", "training.learning_rate": 0.001}}
    best = {**PRE, "configurations": "all"}
    arms = {"pre": best, "none": {**NONE, "configurations": "all"}}
    assert judge_claims(lambda *_: 0.1, claim(arms=arms))["pre_norm"].answer
    by_rate = {
        "pre": {"where": {"model.norm": "pre"}},
        "none": {"where": {"model.norm": "none"}, "configurations": "all"},
    }
    with pytest.raises(UserError, match=r"claim pre_norm: the configurations of pre and none cannot be paired"):
        judge_claims(lambda *_: 0.1, claim(arms=by_rate))
    with pytest.raises(UserError, match="configurations of pre differ only in the keys that define arms"):
        judge_claims(lambda *_: 0.1, claim(arms={"pre": {"configurations": "all"}, "none": one_rate}))


@pytest.mark.parametrize("elsewhere", [0.0, 5.0])
def test_the_best_configuration_and_average_are_chosen_at_the_selection_lengths(
    judge_claims: Judge, elsewhere: float
) -> None:
    """Whatever the test lengths say: there the chosen ones are the worse ones, the more so with `elsewhere`."""

    def value(member: MemberConfig, metric: str, average: str, length: int, step: int) -> float:
        good = (rate(member) == 0.003) + 0.5 * (average == "ema")
        return 1.0 - 0.1 * good if length in (5, 6) else 1.0 + (1.0 + elsewhere) * good

    arms = {"pre": {"where": {"model.norm": "pre"}, "average": ["raw", "ema"]}, "none": NONE}
    judgement = judge_claims(value, claim(arms=arms))["pre_norm"]
    (chosen,) = judgement.arms["pre"].config_ids
    assert judgement.sweep.read_setting(chosen, "training.learning_rate") == 0.003
    assert judgement.arms["pre"].average == "ema"
    assert values_of(judgement, "pre") == [1.0 + (1.0 + elsewhere) * 1.5] * 9
    groups = judgement.sweep.groups
    assert not set(groups["selection"]) & set(groups["test"]) and not set(groups["trained"]) & set(groups["test"])


def test_a_configuration_that_failed_as_a_whole_is_never_the_best(
    judge_claims: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def value(member: MemberConfig, metric: str, average: str, length: int, step: int) -> float:
        return math.nan if rate(member) == 0.001 and member.seed == 0 else 0.1

    members = judge_claims(value, claim())["pre_norm"].sweep
    objective = members.objective.model_copy(update={"failed_seeds": "fail"})
    monkeypatch.setattr(members, "objective", objective)
    for names in (both := members.find_configurations({"model.norm": "pre"})), both[::-1]:
        chosen = members.choose_configuration(names, "raw")
        assert members.read_setting(chosen, "training.learning_rate") != 0.001


@pytest.mark.parametrize(
    ("policy", "reduce", "chosen"),
    [("worst", "mean", "raw"), ("exclude", "mean", "ema"), ("worst", "last", "raw"), ("exclude", "max", "ema")],
)
def test_configuration_and_average_are_the_best_by_the_objective(
    judge_claims: Judge, monkeypatch, policy, reduce, chosen
) -> None:
    """The average ema is better in four of nine seeds and fails in five; the rate 0.003 fails at length 5 alone."""

    def value(member: MemberConfig, metric: str, average: str, length: int, step: int) -> float:
        if average == "ema" and member.seed > 3:
            return math.nan
        if rate(member) == 0.003:
            return math.nan if length == 5 else 0.05
        return 0.2 if average == "raw" else 0.1

    members = judge_claims(value, claim())["pre_norm"].sweep
    objective = members.objective.model_copy(update={"failed_seeds": policy, "reduce": reduce})
    monkeypatch.setattr(members, "objective", objective)
    names = members.find_configurations({"model.norm": "pre"})
    others = [name for name in names if members.read_setting(name, "training.learning_rate") != 0.003]
    assert members.choose_average(["raw", "ema"], others) == chosen
    assert members.read_setting(members.choose_configuration(names, "raw"), "training.learning_rate") != 0.003


@pytest.mark.parametrize(("evaluation", "expected"), [("last", 0.9), ("best", 0.2)])
def test_the_best_evaluation_of_a_seed_is_chosen_at_the_selection_lengths(
    judge_claims: Judge, evaluation, expected
) -> None:
    def value(member: MemberConfig, metric: str, average: str, length: int, step: int) -> float:
        early = step < 100
        if length in (5, 6):
            return 0.1 if early else 0.4
        return 0.2 if early else 0.9

    assert (
        values_of(judge_claims(value, claim(evaluation=evaluation), evaluations=2)["pre_norm"], "pre") == [expected] * 9
    )


def test_minus_is_taken_length_by_length_and_over_of_what_lengths_came_to(judge_claims: Judge) -> None:
    def value(member: MemberConfig, metric: str, average: str, length: int, step: int) -> float:
        if metric == "invalid_mass":
            return 0.5 * length
        return length**2 + member.seed + (10.0 * length if is_pre(member) else 0.0)

    arms = {
        "largest gap": {**PRE, "minus": "none", "reduce": "max"},
        "gap at 9": {**PRE, "minus": "none", "lengths": [9]},
        "less its first": {**NONE, "minus": "first"},
        "first": {**NONE, "lengths": [1]},
        "share": {**PRE, "metric": "invalid_mass", "lengths": [8], "over": "half"},
        "half": {**PRE, "metric": "invalid_mass", "lengths": [2, 4]},
        "none": NONE,
    }
    chosen = [name for name in arms if name not in ("first", "half", "none")]
    claims = [
        claim(id=f"c{i}", arms=arms, compare=[name], question="bound", bound=0, lengths=[7, 8])
        for i, name in enumerate(chosen)
    ]
    judgements = judge_claims(value, *claims)
    results = {name: values_of(judgements[f"c{i}"], name) for i, name in enumerate(chosen)}
    assert results["largest gap"] == [80.0] * 9
    assert results["less its first"] == [(49 + 64) / 2 - 1.0] * 9, "lengths differ: minus what the other came to"
    assert results["share"] == [4.0 / 1.5] * 9 or results["share"] == pytest.approx([4.0 / 1.5] * 9, abs=1e-4)
    assert results["gap at 9"] != results["largest gap"]


def test_what_is_subtracted_must_have_learned_too(judge_claims: Judge) -> None:
    arms = {"gap": {**PRE, "minus": "none"}, "none": NONE}
    asked = claim(arms=arms, compare=["gap"], question="bound", bound=0.0, learned=LEARNED)

    def value(member: MemberConfig, *_: object) -> float:
        return 0.9 if not is_pre(member) and 0 < member.seed < 5 else 0.01

    judgement = judge_claims(value, asked)["pre_norm"]
    assert judgement.verdict_text == "not tested: not learned (gap 5 of 9 seeds)"


def test_several_metrics_are_averaged_and_one_that_failed_is_not_skipped(judge_claims: Judge) -> None:
    def value(member: MemberConfig, metric: str, *_: object) -> float:
        return 1.0 if metric == "total_variation" else 3.0 if member.seed else math.nan

    judgement = judge_claims(value, claim(metric=["total_variation", "invalid_mass"]))["pre_norm"]
    assert values_of(judgement, "pre")[1:] == [2.0] * 8
    assert np.isnan(values_of(judgement, "pre")[0])


def test_reduce_says_how_lengths_become_one_value(judge_claims: Judge) -> None:
    for how, expected in (("mean", 8.0), ("min", 7.0), ("max", 9.0)):
        judgement = judge_claims(lambda _member, _metric, _average, length, _step: length, claim(reduce=how))[
            "pre_norm"
        ]
        assert values_of(judgement, "pre") == [expected] * 9


def test_a_seed_succeeds_if_all_its_configurations_do(judge_claims: Judge) -> None:
    asked = claim(arms=ALL, compare=["pre"], question="share", success={"most": 0.5}, expect="larger")

    def value(member: MemberConfig, *_: object) -> float:
        return 0.9 if rate(member) == 0.003 and member.seed < 2 else 0.1

    judgement = judge_claims(value, asked)["pre_norm"]
    assert judgement.answer.detail == "7 of 9"


def test_a_failed_seed_has_not_learned_and_has_not_succeeded(judge_claims: Judge) -> None:
    asked = claim(arms={"pre": PRE}, compare=["pre"], question="share", success={"most": 0.5}, expect="larger")

    def first_failed(member: MemberConfig, *_: object) -> float:
        return math.nan if member.seed == 0 else 0.1

    judgement = judge_claims(first_failed, asked)["pre_norm"]
    assert judgement.answer.detail == "8 of 9"
    learned = judge_claims(first_failed, {**asked, "learned": {"metric": "total_variation", "most": 0.5}})["pre_norm"]
    assert learned.answer.detail == "8 of 9"
    assert learned.learned_answer.detail == "8 of 8"


@pytest.mark.parametrize("question", ["share", "fisher", "bound", "ratio", "equivalence", "difference"])
def test_nothing_is_asked_of_seeds_of_which_none_learned(judge_claims: Judge, question: str) -> None:
    single_arm = {"arms": {"pre": PRE}, "compare": ["pre"]}
    asked = {
        "share": {**single_arm, "success": {"most": 0.5}},
        "fisher": {"success": {"most": 0.5}},
        "bound": {**single_arm, "bound": 0.5},
        "equivalence": {"within": 0.5, "expect": None},
    }.get(question, {})
    judgement = judge_claims(lambda *_: 0.4, claim(question=question, learned=LEARNED, **asked))["pre_norm"]
    assert judgement.verdict_text.startswith("not tested: not learned (pre 0 of 9"), judgement.verdict_text


def test_learned_in_all_configurations_of_every_arm(judge_claims: Judge) -> None:
    """A seed that has not learned at one rate of one arm counts nowhere."""

    def value(member: MemberConfig, metric: str, average: str, length: int, step: int) -> float:
        unlearned = member.seed == (1 if is_pre(member) else 2) and rate(member) == 0.003
        return 0.9 if unlearned else 0.01

    judgement = judge_claims(value, claim(arms=ALL, learned=LEARNED))["pre_norm"]
    assert judgement.learned_answer.n == 7 and judgement.answer.n == judgement.answer.n_trained == 9
    assert judgement.arms["pre"].seeds_learned == 8
