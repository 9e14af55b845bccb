"""The claims on scratchpads: planted effects are found, reversed ones refused, noise decides nothing."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from orchestrator.studies.claims import Claim
from orchestrator.studies.inductive_scratchpad.claims import all_claims
from orchestrator.studies.inductive_scratchpad.measures import FULL, INDUCTIVE, NONE, OFFSETS, arms, difference, learned
from orchestrator.studies.inductive_scratchpad.page import write_page
from orchestrator.studies.measures import Sweep
from orchestrator.studies.studies import STUDIES
from trainers.config.member import MemberConfig

FILES = {file.stem: file for file in STUDIES["inductive_scratchpad"].files}
UNLEARNED = (2, 5)  # seeds of a full scratchpad that fail at a trained length


def member_values(member: MemberConfig, number: int, metrics: tuple[str, ...], step: int, effect: float) -> np.ndarray:
    """(1, metrics, lengths): all right where it was trained; beyond, more by `effect` with an inductive scratchpad."""
    rng = np.random.default_rng([member.seed, number])
    lengths = np.array(member.evaluated_lengths)
    inductive = member.task.scratchpad == INDUCTIVE
    beyond = 0.5 + 0.01 * rng.normal() + (0.3 * effect if inductive else 0.0)
    longest = max(member.task.trained_lengths)
    right = np.where(lengths > longest, beyond, 1.0)
    if not inductive and member.seed in UNLEARNED:
        right = np.where(lengths == longest, 0.85, np.where(lengths > longest, 1.0, 0.99))
    return np.array([[right for _ in metrics]])


@pytest.fixture(scope="module")
def pretended(
    tmp_path_factory: pytest.TempPathFactory, pretend: Callable[..., Sweep]
) -> Callable[[float], dict[str, Sweep]]:
    def make(effect: float) -> dict[str, Sweep]:
        storage = tmp_path_factory.mktemp("pretended")
        return {
            name: pretend(file, storage, lambda *of: member_values(*of, effect), evaluations=1, seeds=8)
            for name, file in FILES.items()
        }

    return make


def answers(claims: list[Claim]) -> list[str]:
    return [part.answer for part in of_parity(claims).parts]


def of_parity(claims: list[Claim]) -> Claim:
    (found,) = [claim for claim in claims if claim.letter == "I4"]
    return found


def test_a_planted_effect_is_found_and_the_page_says_so(pretended: Callable[[float], dict[str, Sweep]], tmp_path: Path):
    sweeps = pretended(1.0)
    parity = sweeps["fig5a_parity_cpu"]
    of = arms(parity)
    assert set(of) == {INDUCTIVE, FULL, OFFSETS, NONE}
    assert learned(parity, of[INDUCTIVE]) == set(range(8)) and learned(parity, of[FULL]) == set(range(8)) - {*UNLEARNED}
    effect = difference(parity, of[INDUCTIVE], of[OFFSETS], (9,))
    assert effect.n == 6 and effect.low > 0.25 and effect.high < 0.35, "seeds that did not learn are left out"
    claims = all_claims(sweeps)
    assert set(answers(claims)) == {"held"}
    assert all("both 6 of 8" in part.effect for part in of_parity(claims).parts), "and counted"
    page = write_page(sweeps, tmp_path).read_text(encoding="utf-8")
    assert "(I4)" in page and "| full, random offsets |" in page
    assert len(list(tmp_path.glob("inductive_scratchpad_*.png"))) == len(claims)


def test_a_reversed_effect_is_refused_and_noise_decides_nothing(pretended: Callable[[float], dict[str, Sweep]]) -> None:
    assert set(answers(all_claims(pretended(-1.0)))) == {"did not hold"}
    assert set(answers(all_claims(pretended(0.0)))) == {"not decided"}


def test_where_no_seed_learned_nothing_is_decided(pretended: Callable[[float], dict[str, Sweep]], monkeypatch) -> None:
    monkeypatch.setattr("orchestrator.studies.inductive_scratchpad.measures.LEARNED", 1.1)
    found = all_claims(pretended(1.0))
    assert set(answers(found)) == {"not decided"}
    effect = of_parity(found).parts[0].effect
    assert "inductive 0" in effect and "n = 0" not in effect
