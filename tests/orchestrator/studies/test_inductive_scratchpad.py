"""The claims on scratchpads: planted effects are found, reversed ones refused, noise decides nothing."""

from pathlib import Path

import numpy as np

from orchestrator.studies.claims import NOT_TESTABLE, Claim
from orchestrator.studies.inductive_scratchpad.claims import all_claims
from orchestrator.studies.inductive_scratchpad.graphs import KINDS
from orchestrator.studies.inductive_scratchpad.measures import (
    FULL,
    INDUCTIVE,
    NONE,
    OFFSETS,
    arms,
    by_change,
    difference,
    learned,
)
from orchestrator.studies.inductive_scratchpad.page import write_page
from orchestrator.studies.studies import STUDIES
from tests.orchestrator.studies.conftest import Pretended
from trainers.config.member import MemberConfig

FILES = {file.stem: file for file in STUDIES["inductive_scratchpad"].files}
PRETENDED = {"evaluations": 1, "seeds": 8, "more": [f"{kind}.cycles" for kind in KINDS]}
AGAINST = ("I3", "I4", "I4, addition", "C.1.1")  # the claims that compare shares alone
UNLEARNED = (2, 5)  # seeds of a full scratchpad that fail at a trained length


def member_values(member: MemberConfig, number: int, metrics: tuple[str, ...], step: int, effect: float) -> np.ndarray:
    """(1, metrics, lengths): all right where it was trained; beyond, more by `effect` with an inductive scratchpad.

    Not where dropout, weight decay or the batch size are others than in the first configurations.
    """
    rng = np.random.default_rng([member.seed, number])
    lengths = np.array(member.evaluated_lengths)
    inductive = member.task.scratchpad == INDUCTIVE
    training = member.training
    changed = member.model.dropout > 0 or training.weight_decay != 0.1 or training.batch_size < 64
    beyond = 0.5 + 0.01 * rng.normal() + (0.3 * effect if inductive and not changed else 0.0)
    longest = max(member.task.trained_lengths)
    right = np.where(lengths > longest, beyond, 1.0)
    if not inductive and member.seed in UNLEARNED:
        right = np.where(lengths == longest, 0.85, np.where(lengths > longest, 1.0, 0.99))
    return np.array([[right for _ in metrics]])


def answers(claims: list[Claim]) -> list[str]:
    return [part.answer for claim in claims if claim.letter in AGAINST for part in claim.parts]


def of_parity(claims: list[Claim]) -> Claim:
    (found,) = [claim for claim in claims if claim.letter == "I4"]
    return found


def test_a_planted_effect_is_found_and_the_page_says_so(pretended: Pretended, tmp_path: Path):
    sweeps = pretended(1.0)
    parity = sweeps["fig5a_parity_cpu"]
    of = arms(parity)
    assert set(of) == {INDUCTIVE, FULL, OFFSETS, NONE}
    assert learned(parity, of[INDUCTIVE]) == set(range(8)) and learned(parity, of[FULL]) == set(range(8)) - {*UNLEARNED}
    effect = difference(parity, of[INDUCTIVE], of[OFFSETS], (9,))
    assert effect.n == 6 and effect.low > 0.25 and effect.high < 0.35, "seeds that did not learn are left out"
    claims = all_claims(sweeps)
    assert set(answers(claims)) == {"held"}
    by_letter = {claim.letter: [part.effect for part in claim.parts] for claim in claims}
    counted = [effect for letter in AGAINST[:3] for effect in by_letter[letter]]
    assert len(counted) == 8 and all("with both 6 of 8" in effect for effect in counted), "and counted"
    changed = by_letter["C.1.1"]
    assert len(changed) == 6 and all("n = 8 seeds" in effect for effect in changed)
    assert all("with both 8 of 8" in effect for effect in changed[1::2])
    assert list(by_change(sweeps["regularization_cpu"])) == [
        "dropout 0, weight decay 0.1, batches of 128",
        "dropout 0.2",
        "weight decay 0.001",
        "batches of 32",
    ]
    page = write_page(sweeps, tmp_path).read_text(encoding="utf-8")
    assert "(I4)" in page and "(C.1.1)" in page and "| full, random offsets |" in page
    assert len(list(tmp_path.glob("inductive_scratchpad_*.png"))) == len(claims)


def test_a_reversed_effect_is_refused_and_noise_decides_nothing(pretended: Pretended) -> None:
    assert set(answers(all_claims(pretended(-1.0)))) == {"did not hold"}
    assert set(answers(all_claims(pretended(0.0)))) == {"not decided"}


def test_where_no_seed_learned_nothing_is_tested(pretended: Pretended, monkeypatch) -> None:
    monkeypatch.setattr("orchestrator.studies.inductive_scratchpad.measures.LEARNED", 1.1)
    found = all_claims(pretended(1.0))
    (changed,) = (claim for claim in found if claim.letter == "C.1.1")
    compared = [claim.parts for claim in found if claim.letter in AGAINST[:3]] + [changed.parts[1::2]]
    assert {part.answer for parts in compared for part in parts} == {NOT_TESTABLE}
    assert {part.answer for part in changed.parts[::2]} == {"held"}, "of all seeds"
    effect = of_parity(found).parts[0].effect
    assert "with it 0" in effect and "n = 0" not in effect
