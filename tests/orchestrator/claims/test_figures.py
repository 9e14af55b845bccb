"""Figures of claims: paired differences with their interval, what was never reached above them, axes with names."""

from dataclasses import replace

import numpy as np
import pytest

from orchestrator.claims.details_section import describe_remedy
from orchestrator.claims.figures import draw_claim, is_drawable
from orchestrator.claims.judgement import Judgement
from orchestrator.claims.verdicts import add_seeds_needed
from tests.orchestrator.claims.conftest import NONE, PRE, STEPS, Judge, claim, is_pre
from trainers.config.member import MemberConfig

POOLED = {"where": {"model.norm": "pre"}, "configurations": "all"}


def axes_of(judgement: Judgement):
    assert is_drawable(judgement)
    figure = draw_claim(judgement)
    return figure.axes[0], f"{figure.get_suptitle()}, {figure.axes[0].get_title()}"


ARMS = {"arms": {"pre": POOLED, "none": {**POOLED, "where": {"model.norm": "none"}}}}


def norm_differs(member: MemberConfig, metric: str, average: str, length: int, step: int) -> float:
    """Seeds differ by 0.01 in what pre-norm adds, and lengths by 0.001."""
    return 0.5 + is_pre(member) * (0.01 * member.seed + 0.001 * length) + 0.1 * member.training.learning_rate


def test_a_dot_is_the_paired_difference_of_a_seed_and_the_band_its_interval(judge_claims: Judge) -> None:
    judgement = judge_claims(norm_differs, claim(**ARMS, lengths=[8], figure="seeds"))["pre_norm"]
    axes, title = axes_of(judgement)
    (dots,) = [line for line in axes.lines if line.get_marker() == "."]
    assert dots.get_ydata() == pytest.approx(0.008 + 0.01 * np.arange(9), abs=1e-6), "the median of two rates"
    assert [patch.get_y() for patch in axes.patches] == pytest.approx([judgement.answer.low], abs=1e-6)
    assert [line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == "--"] == [0.0]
    assert "pre minus none" in title and "2 configurations" in title


def test_against_length_the_paired_difference_has_a_band(judge_claims: Judge) -> None:
    judgement = judge_claims(norm_differs, claim(**ARMS))["pre_norm"]
    axes, _ = axes_of(judgement)
    thin = [line for line in axes.lines if line.get_alpha()]
    assert len(thin) == 9, "a curve for each seed"
    assert thin[3].get_ydata() == pytest.approx(0.03 + 0.001 * np.arange(1, 10), abs=1e-6)
    (band,) = axes.collections
    edges = band.get_paths()[0].vertices[:, 1]
    assert edges.min() < 0.02 and edges.max() > 0.07

    # Selection lengths that are trained are named with the trained ones, whose shade they have.
    trained = judgement.sweep.groups["trained"]
    for selection, ranked_by in ((trained, "these"), (trained[-1:], str(trained[-1]))):
        judgement.sweep.groups["selection"] = selection
        legend = axes_of(judgement)[0].get_legend()
        assert [text.get_text() for text in legend.get_texts()] == [f"trained (ranked by {ranked_by})"]


@pytest.mark.parametrize("question", ["share", "fisher"])
def test_shares_of_seeds_have_no_figure(judge_claims: Judge, question: str) -> None:
    arms = ARMS["arms"] if question == "fisher" else {"pre": POOLED}
    asked = claim(arms=arms, compare=list(arms), question=question, success={"most": 0.8}, expect="larger")
    assert not is_drawable(judge_claims(norm_differs, asked)["pre_norm"])


@pytest.mark.parametrize(
    ("worse", "others", "enough"),
    [
        ((0, 1), (), 24),  # 19 of 24: p = .0066
        (
            (0, 1),
            (1e-6,),
            24,
        ),  # Holm takes smaller p out first
        ((0, 1), (0.9,), 24),  # 19 of 24: p = .0066
        ((0, 2, 4, 6), (), 0),
    ],
)
def test_more_seeds_are_asked_for_if_they_would_decide(
    judge_claims: Judge, worse: tuple[int, ...], others: tuple[float, ...], enough: int
) -> None:
    """Those that learned, if others do not count; nine seeds were trained. `others`: p of the page's other claims."""

    def noise(member: MemberConfig, metric: str, average: str, length: int, step: int) -> float:
        return 0.1 + (0.01 if member.seed in worse else -0.01) * (member.model.norm == "pre")

    learned = {"metric": "total_variation", "lengths": [1], "most": 0.5}
    for changes in ({}, {"learned": learned}):
        judgement = judge_claims(noise, claim(**changes))["pre_norm"]
        beside = [replace(judgement, answer=replace(judgement.answer, p=p), holm_p=p) for p in others]
        judgement = add_seeds_needed(
            replace(judgement, verdict="undecided", reason="after 9 seeds"), beside, 2 + len(others)
        )
        assert judgement.seeds_needed == enough and bool(describe_remedy(judgement)) == (enough > 0)


@pytest.mark.parametrize(
    ("values", "asked", "enough"),
    [
        ([0.0] * 5 + [-0.1] * 4, {}, 0),  # no seed speaks against it, but the median is a tie
        ([0.0] * 2 + [-0.1] * 7, {}, 17),
        ([0.0] * 2 + [-0.1] * 7, {"negligible": 0.2}, None),  # decided: no effect
        ([0.04] * 5 + [0.06] * 4, {"question": "equivalence", "within": 0.05, "expect": None}, 0),  # on the bound
        ([0.04] * 7 + [0.06] * 2, {"question": "equivalence", "within": 0.05, "expect": None}, 17),
        ([0.04] * 2 + [0.06] * 7, {"question": "equivalence", "within": 0.05, "expect": None}, 24),
    ],
)
def test_more_seeds_decide_only_what_their_interval_would(
    judge_claims: Judge, values: list[float], asked: dict[str, object], enough: int | None
) -> None:
    def value(member: MemberConfig, metric: str, average: str, length: int, step: int) -> float:
        return 0.5 + (values[member.seed] if member.model.norm == "pre" else 0.0)

    assert judge_claims(value, claim(**asked))["pre_norm"].seeds_needed == enough


def test_infinite_values_are_beyond_the_finite_ones(judge_claims: Judge, monkeypatch: pytest.MonkeyPatch) -> None:
    """Differences, all of them negative if they are finite; a seed of either arm never reached the threshold."""
    monkeypatch.setattr("tests.orchestrator.claims.conftest.USED", ("steps_to_exact_match", "exact_match"))
    steps = {4: [100.0, 200.0, 300.0, np.inf, 100.0, 200.0], 8: [400.0] * 4 + [np.inf] + [400.0]}
    arms = {f"n = {n}": {"where": {"task.size": n}} for n in (4, 8)}
    asked = claim(arms=arms, compare=list(arms), lengths="trained", metric="steps_to_exact_match", figure="seeds")
    judgements = judge_claims(
        lambda member, *_: steps[member.task.size][member.seed], asked, seeds=6, sweep=STEPS, evaluations=1
    )
    axes, _ = axes_of(judgements["pre_norm"])
    (dots,) = [line.get_ydata() for line in axes.lines if line.get_marker() == "."]
    above, below = [line for line in axes.lines if line.get_marker() == "x"]
    assert dots.tolist() == [-300.0, -200.0, -200.0, -100.0]
    assert (above.get_xdata().tolist(), below.get_xdata().tolist()) == ([6], [1])
    assert above.get_ydata()[0] > -100.0 and below.get_ydata()[0] < -300.0


@pytest.mark.parametrize("key", ["minus", "over"])
def test_an_arm_computed_from_another_one_is_drawn_by_its_values(judge_claims: Judge, key: str) -> None:
    arms = {"pre": {**PRE, key: "none"}, "none": NONE}
    axes, _ = axes_of(judge_claims(lambda member, *_: 0.4 if is_pre(member) else 0.2, claim(arms=arms))["pre_norm"])
    (dots,) = [line for line in axes.lines if line.get_marker() == "."]
    assert dots.get_ydata() == pytest.approx([0.0 if key == "minus" else 1.8] * 9, abs=1e-6)
