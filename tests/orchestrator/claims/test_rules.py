"""The rules of judgement: what they decide, and how rarely they decide something if there is nothing to find."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from orchestrator.claims.answers import answer_question
from orchestrator.claims.arm_values import ArmValues
from orchestrator.claims.judgement import Judgement
from orchestrator.claims.repeated_tests import list_changed_keys
from orchestrator.claims.seed_tests import Answer, answer_mean
from orchestrator.claims.sweep_curves import SweepCurves
from orchestrator.claims.verdicts import decide_verdicts, judge, judge_interval, read_tested_sweeps
from search_spaces.grammar.claims import Claim, ClaimsFile, load_claims
from tests.orchestrator.claims.conftest import SWEEP, Judge, claim, is_pre, pretended_sweep, write_claims
from trainers.config.member import MemberConfig

DECIDED = ("held", "contradicted")


def a_page(claims: Sequence[dict[str, object]]) -> ClaimsFile:
    return ClaimsFile.model_validate({"title": "Made up", "claims": claims})


def answered(asked: Claim, values: np.ndarray, reason: str = "") -> Judgement:
    return Judgement(claim=asked, verdict="not tested", reason=reason, answer=answer_mean(values))


def share_of_false_pages(draw_page: Callable[[np.random.Generator], list[Judgement]], pages: int) -> float:
    """The share of pages on which some claim is decided."""
    rng = np.random.default_rng(0)
    return float(np.mean([any(judgement.verdict in DECIDED for judgement in draw_page(rng)) for _ in range(pages)]))


def test_every_claim_of_a_page_is_in_the_correction_whatever_came_out() -> None:
    """Four of twelve are not learned, and two rest on a control that is not held; p of the first counts 12 times."""
    clear = np.array([0.5, 0.7, 0.6, 0.8, 0.9, 0.7, 0.6, 0.5, 0.8])
    file = a_page([claim(id=f"c{k}", expect="larger", control="c5" if k in (6, 7) else None) for k in range(12)])
    noise = np.array([-1.0, 1.0, -2.0, 2.0, -3.0, 3.0, -1.0, 1.0, 0.5])
    rows = []
    for k, listed in enumerate(file.claims):
        reason = "not learned" if 1 <= k <= 4 else ""
        rows.append([answered(listed, clear if k in (0, 2, 6) else noise, reason)])
    judgements = {judgement.claim.id: judgement for judgement in decide_verdicts(rows, file)}
    assert judgements["c0"].verdict == "held" and judgements["c0"].holm_p == pytest.approx(
        12 * judgements["c0"].answer.p
    )
    assert [judgements[name].verdict for name in ("c2", "c6", "c7")] == ["not tested"] * 3
    assert judgements["c5"].verdict == "undecided" and np.isnan(judgements["c6"].holm_p)


def test_among_claims_without_an_effect_one_page_in_twenty_decides_some_also_if_half_are_not_learned() -> None:
    file = a_page([claim(id=f"c{k}") for k in range(8)])

    def draw_page(rng: np.random.Generator) -> list[Judgement]:
        learned = rng.random(len(file.claims)) < 0.5
        reasons = ["" if is_learned else "not learned" for is_learned in learned]
        return decide_verdicts(
            [[answered(c, rng.normal(size=12), r)] for c, r in zip(file.claims, reasons, strict=True)], file
        )

    assert share_of_false_pages(draw_page, pages=150) <= 0.05


def test_asking_until_it_comes_out_decides_no_more_pages_than_asking_once() -> None:
    """Each undecided claim is asked again of fresh seeds, up to four times; then by itself it would be decided."""

    def ask_rows(samples: list[list[Answer]]) -> list[Judgement]:
        claims = [
            claim(id=f"c{k}_{i}", asked_again=f"c{k}_{i + 1}" if i + 1 < len(tests) else None)
            for k, tests in enumerate(samples)
            for i in range(len(tests))
        ]
        file = a_page(claims)
        by_id = {claim.id: claim for claim in file.claims}
        rows = [
            [Judgement(claim=by_id[f"c{k}_{i}"], verdict="not tested", answer=answer) for i, answer in enumerate(tests)]
            for k, tests in enumerate(samples)
        ]
        return decide_verdicts(rows, file)

    def draw_page(rng: np.random.Generator) -> list[Judgement]:
        drawn = rng.normal(size=(6, 36))
        samples = [[answer_mean(values[:9])] for values in drawn]
        for _ in range(3):
            judgements = {judgement.claim.id: judgement for judgement in ask_rows(samples)}
            for k, tests in enumerate(samples):
                if judgements[f"c{k}_0"].verdict not in DECIDED:
                    tests.append(answer_mean(drawn[k, : 9 * (len(tests) + 1)]))
        return ask_rows(samples)

    assert share_of_false_pages(draw_page, pages=20) <= 0.05


def two_sweeps(storage: Path, value: Callable[[MemberConfig], float], seeds: str, **again: object) -> list[Judgement]:
    """A claim of seeds 0 to 8 of one sweep, asked again of the given seeds of another one."""

    def invent(member: MemberConfig, number: int, metrics: tuple[str, ...], step: int) -> np.ndarray:
        return np.full((2, len(metrics), len(member.evaluated_lengths)), value(member))

    for name, drawn in (("made_up", "9"), ("fresh", seeds)):
        sweep = SWEEP.replace("name: made_up", f"name: {name}").replace("seeds: 9", f"seeds: {drawn}")
        (storage / f"{name}.yaml").write_text(sweep)
        pretended_sweep(storage / f"{name}.yaml", storage, invent)
    second = claim(**{"id": "again", "sweep": "fresh", **again})
    file = load_claims(write_claims(storage / "claims.yaml", [claim(asked_again="again"), second]))
    return judge(file, read_tested_sweeps(file, storage))


FRESH = f"[{', '.join(map(str, range(9, 21)))}]"


def two_of_three(member: MemberConfig) -> float:
    return 0.5 + (0.1 if member.seed % 6 == 0 else -0.1) * is_pre(member)


def test_repeats_of_a_claim_have_one_verdict_over_all_seeds(tmp_path: Path) -> None:
    """Nine seeds with seven ahead, then twelve with ten: each is undecided alone, both together are held."""
    first, last = two_sweeps(tmp_path, two_of_three, FRESH)
    assert (first.verdict, last.verdict) == ("held", "held")
    assert (first.answer.n, last.unpooled_answer.n, last.answer.n) == (9, 12, 21) and last.pooled == (
        "pre_norm",
        "again",
    )
    assert first.answer.p > 0.05 and last.answer.p == pytest.approx(stats.binomtest(17, 21).pvalue)
    assert last.holm_p == pytest.approx(2 * last.answer.p), "both tests count"


def test_a_setting_that_an_older_sweep_does_not_have_is_no_change(tmp_path: Path) -> None:
    first, last = two_sweeps(tmp_path, two_of_three, FRESH)
    for configuration in first.sweep.state.configurations.values():
        del configuration.resolved["evaluation"]["axis"], configuration.resolved["training"]["optimizer"]
    assert list_changed_keys(first, last) == []
    for configuration in first.sweep.state.configurations.values():
        configuration.resolved["training"]["learning_rate"] = 0.5
    assert list_changed_keys(first, last) == ["training.learning_rate"]


def test_a_seed_that_was_trained_twice_counts_once(tmp_path: Path) -> None:
    assert two_sweeps(tmp_path, two_of_three, "12")[1].answer.n == 12


def test_a_repeat_that_changed_more_than_the_seeds_is_judged_by_itself(tmp_path: Path) -> None:
    first, last = two_sweeps(tmp_path, two_of_three, FRESH, lengths=[9])
    assert last.pooled == () and last.answer.n == 12 and first.verdict == last.verdict == "undecided"
    assert last.holm_p == pytest.approx(2 * stats.binomtest(10, 12).pvalue)


def an_arm(name: str, values: np.ndarray, learned: np.ndarray | None = None) -> ArmValues:
    """An arm with one value for each seed, of a metric from 0 to 1 of which more is better, within 0.01 of its ends."""
    index = pd.MultiIndex.from_product([[""], range(len(values))], names=["context", "seed"])
    series = pd.Series(values, index=index)
    return ArmValues(
        name=name, contexts={name: ""}, average="raw", lengths=series.to_frame(), values=series,
        is_learned=pd.Series(True if learned is None else learned, index=index), direction="maximize",
        is_at_floor=series <= 0.01, is_at_ceiling=series >= 0.99,
    )  # fmt: skip


def verdict_of(asked: Claim, arms: list[ArmValues], *, learned_only: bool = False) -> str:
    answer = answer_question(asked, cast(SweepCurves, None), arms, learned_only=learned_only)
    verdict = judge_interval(asked, answer)
    return verdict if answer.p <= 0.05 else "undecided"


BETTER = Claim.model_validate(claim(expect="larger"))


def test_an_arm_is_not_better_because_only_its_good_seeds_learned() -> None:
    """Equal distributions, but the worst third of one arm counts as not learned: over all seeds it is never better."""
    rng, better = np.random.default_rng(0), {True: 0, False: 0}
    for _ in range(40):
        first, second = rng.uniform(size=(2, 17))
        arms = [an_arm("pre", first, first > 1 / 3), an_arm("none", second)]
        for learned_only in better:
            better[learned_only] += verdict_of(BETTER, arms, learned_only=learned_only) == "held"
    assert better[True] / 40 > 0.05 > 0.025 >= better[False] / 40


@pytest.mark.parametrize("share", [0.5, 0.9])
def test_arms_that_learn_alike_seldom_differ(share: float) -> None:
    rng, decided = np.random.default_rng(0), 0
    for _ in range(40):
        first, second = rng.uniform(size=(2, 17))
        learned = rng.uniform(size=(2, 17)) < share
        arms = [an_arm("pre", first, learned[0]), an_arm("none", second, learned[1])]
        decided += verdict_of(BETTER, arms) in DECIDED
    assert decided / 40 <= 0.05


@pytest.mark.parametrize("level", [1.0, 0.0])
def test_ties_at_an_end_of_the_metric_are_no_equivalence(level: float) -> None:
    """One seed of five differs by 0.06, the others tie."""
    asked, rng, count = Claim.model_validate(claim(expect="larger", negligible=0.01)), np.random.default_rng(0), 0
    for _ in range(20):
        apart = 0.06 * (rng.uniform(size=17) < 0.2)
        arms = [an_arm("pre", np.abs(level - apart)), an_arm("none", np.full(17, level))]
        count += verdict_of(asked, arms).startswith("no effect")
    assert count / 20 <= 0.05


def test_unlearned_pairs_are_no_equivalence_and_learned_ones_are() -> None:
    asked, same = Claim.model_validate(claim(expect="larger", negligible=0.01)), np.linspace(0.3, 0.6, 17)
    assert verdict_of(asked, [an_arm("pre", same), an_arm("none", same + 0.001)]).startswith("no effect")
    unlearned = np.zeros(17, dtype=bool)
    arms = [an_arm(name, same, unlearned) for name in ("pre", "none")]
    assert verdict_of(asked, arms) == "undecided"


@pytest.mark.parametrize(
    ("level", "verdict"), [(0.5, "no effect within ±0.01"), (0.995, "undecided"), (0.004, "undecided")]
)
@pytest.mark.parametrize("question", ["difference", "equivalence"])
def test_an_equivalence_needs_values_that_could_differ(
    judge_claims: Judge, level: float, verdict: str, question: str
) -> None:
    asked = {"negligible": 0.01} if question == "difference" else {"within": 0.01, "expect": None}
    held = verdict if verdict == "undecided" or question == "difference" else "held"
    judgement = judge_claims(lambda m, *_: level + 0.001 * is_pre(m), claim(question=question, **asked))["pre_norm"]
    assert judgement.verdict == held


def test_a_metric_beyond_1_has_no_ceiling(judge_claims: Judge) -> None:
    asked = claim(negligible=0.01)
    judgement = judge_claims(lambda member, *_: 0.995 if member.seed else 3.0, asked)["pre_norm"]
    assert judgement.verdict == "no effect within ±0.01"
