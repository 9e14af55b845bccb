"""The claims on flip-flops: planted effects are found, reversed ones refused, and noise decides nothing."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from orchestrator.studies.claims import NOT_TESTABLE, Claim
from orchestrator.studies.measures import Sweep
from orchestrator.studies.studies import STUDIES
from orchestrator.studies.threshold_attention.claims import all_claims
from orchestrator.studies.threshold_attention.measures import SETS, arms, difference, learned, share
from orchestrator.studies.threshold_attention.page import write_page
from orchestrator.studies.threshold_attention.perplexity import by_pairs, perplexity_claim
from orchestrator.studies.threshold_attention.strings import strings_claim
from trainers.config.member import MemberConfig

STUDY = STUDIES["threshold_attention"]
FILES = {file.stem: file for file in (*STUDY.files, *(STUDY.files[0].with_name(f"{one}.yaml") for one in STUDY.apart))}
METRICS = ["perplexity.validation"] + [f"{base}.{of}" for base in ("read_error", "accuracy") for of in SETS[1:]]
STRING_CLAIMS = ("T1, copying", "T1, induction", "T1, instructions")
UNLEARNED = (2, 5)  # seeds of rope that read the trained length wrongly


def is_whole(member: MemberConfig) -> bool:
    """Whether it is tra with every part, as in the paper."""
    position = getattr(member.model, "position", None)
    return position is not None and position == type(position)() and position.name == "tra"


def member_values(member: MemberConfig, number: int, metrics: tuple[str, ...], step: int, effect: float) -> np.ndarray:
    """(1, metrics, lengths): errors beyond 16 pairs, more of them by `effect` where tra is not whole; else noise."""
    rng = np.random.default_rng([member.seed, number])
    lengths = np.array(member.evaluated_lengths)
    base = 0.2 + 0.01 * rng.normal() + effect * (0.0 if is_whole(member) else 0.1)
    error = np.where(lengths > 16, base, 0.0)
    if effect > 0 and is_whole(member):
        error = 0.0 * lengths
    position = getattr(member.model, "position", None)
    if position is not None and position.name == "rope" and member.seed in UNLEARNED:
        error = np.where(lengths > 16, 0.0, 0.05)
    of = {"read_error": error, "accuracy": 1.0 - error}
    if member.task.name != "flip_flop":
        longer = lengths > lengths[0]
        right = np.where(longer, 0.5 + (0.2 if is_whole(member) else -0.2) * effect + 0.01 * rng.normal(), 0.95)
        if position.name == "rope" and member.seed in UNLEARNED:
            right = 0.1 + 0.0 * lengths
        grown = 0.2 * effect * (-1 if is_whole(member) else 1) + 0.01 * rng.normal()
        of = {"perplexity": np.where(longer, 9.0 + grown, 9.0)}
        of |= dict.fromkeys([metric for metric in metrics if metric.startswith("accuracy")], right)
        return np.array([[of.get(metric, of.get(metric.partition(".")[0], 0 * right)) for metric in metrics]])
    return np.array([[of.get(metric.partition(".")[0], 0 * error) for metric in metrics]])


@pytest.fixture(scope="module")
def pretended(
    tmp_path_factory: pytest.TempPathFactory, pretend: Callable[..., Sweep]
) -> Callable[[float], dict[str, Sweep]]:
    known: dict[float, dict[str, Sweep]] = {}

    def make(effect: float) -> dict[str, Sweep]:
        if effect not in known:
            storage = tmp_path_factory.mktemp("pretended")
            known[effect] = {
                name: pretend(
                    file, storage, lambda *of: member_values(*of, effect), more=METRICS, evaluations=1, seeds=8
                )
                for name, file in FILES.items()
            }
        return known[effect]

    return make


def answers(claims: list[Claim]) -> dict[str, list[str]]:
    return {claim.letter: [part.answer for part in claim.parts] for claim in claims}


def test_a_planted_effect_is_found_and_the_page_says_so(pretended: Callable[[float], dict[str, Sweep]], tmp_path: Path):
    sweeps = pretended(1.0)
    claims = all_claims(sweeps)
    found = answers(claims)
    assert set(found["T1"]) == set(found["A"]) == {"held"}
    assert {found[letter][0] for letter in STRING_CLAIMS} == {"held"}
    assert found["T3"] == ["held", "did not hold", "did not hold", "held", "held"], "by attention, then against each"
    assert found["T2"] == ["held", "held", "held", "did not hold"], "the last: fox at every length"
    first = next(part for part in claims[0].parts if "rope" in part.asked)
    assert "tra 8, rope 6, both 6 of 8" in first.effect, "seeds that did not learn are counted"
    assert "-0.3 [" in first.effect or "-0.29" in first.effect or "-0.30" in first.effect
    page = write_page(sweeps, tmp_path).read_text(encoding="utf-8")
    assert "(T1)" in page and "| tra |" in page and len(list(tmp_path.glob("threshold_attention_*.png"))) == 7
    assert "The sweep has not kept them" in page and "| tra | swap ends |" in page


def test_a_reversed_effect_is_refused_and_noise_decides_nothing(pretended: Callable[[float], dict[str, Sweep]]) -> None:
    reversed_ones = answers(all_claims(pretended(-1.0)))
    assert set(reversed_ones["T1"]) == set(reversed_ones["A"]) == {"did not hold"}
    assert set(reversed_ones["T2"]) == {"held", "did not hold"}, "without an error at the trained length alone"
    assert {reversed_ones[letter][0] for letter in STRING_CLAIMS} == {"did not hold"}
    assert reversed_ones["T3"][0] == reversed_ones["T3"][-1] == "did not hold"
    noise = answers(all_claims(pretended(0.0)))
    assert set(noise["T1"]) == set(noise["A"]) == {"not decided"}
    assert {noise[letter][0] for letter in (*STRING_CLAIMS, "T3")} == {"not decided"}


def test_seeds_that_did_not_learn_are_left_out_of_lengths(pretended: Callable[[float], dict[str, Sweep]]) -> None:
    sweep = pretended(1.0)["table1_ffl_cpu"]
    of = arms(sweep)
    assert set(of) == {"tra", "fox", "alibi", "rope", "cope", "nope"}
    assert learned(sweep, of["rope"]) == set(range(8)) - set(UNLEARNED)
    assert difference(sweep, of["tra"], of["rope"], sweep.test).n == 6


def test_strings_count_unlearned_seeds_apart_and_ask_all_of_them_too(pretended: Callable[[float], dict[str, Sweep]]):
    sweeps = pretended(1.0)
    claims = {claim.letter: claim for claim in all_claims(sweeps)}
    rope = next(part for part in claims["T1, copying"].parts if "rope" in part.asked)
    assert rope.of == "seeds that learned with both" and "tra 8, rope 6, both 6 of 8" in rope.effect
    assert rope.again is not None and "n = 8 seeds" in rope.again.effect and "n = 6 seeds" in rope.effect
    fox = next(part for part in claims["T1, copying"].parts if "fox" in part.asked)
    assert fox.again is None and not fox.of, "all learned: one answer"


def test_where_nothing_is_right_or_better_than_counts_nothing_was_tested(
    tmp_path: Path, pretend: Callable[..., Sweep]
) -> None:
    def nothing(member: MemberConfig, number: int, metrics: tuple[str, ...], step: int) -> np.ndarray:
        lengths = np.array(member.evaluated_lengths)
        right = np.where(lengths > lengths[0], 0.0, 0.95 if member.seed else 0.1)
        of = {"accuracy": right, "perplexity": np.full(len(lengths), 12.0)}
        return np.array([[of.get(metric, 0.0 * right) for metric in metrics]])

    copying = strings_claim("T1", "copying", pretend(FILES["table1_copy_cpu"], tmp_path, nothing, evaluations=1))
    for part in copying.parts:
        assert part.again is not None and part.answer == part.again.answer == NOT_TESTABLE
    more = ["perplexity.validation"]
    text = perplexity_claim(pretend(FILES["lm_wikitext103_cpu"], tmp_path, nothing, evaluations=1, more=more))
    assert text.parts[0].answer == NOT_TESTABLE and "0 of 6 seeds predict better" in text.parts[0].effect


def test_prediction_from_pairs_is_counted() -> None:
    class Text:
        vocabulary = 2

        def size(self, split: str) -> int:
            return {"train": 5, "test": 3}[split]

        def ids(self, split: str, index: torch.Tensor) -> torch.Tensor:
            return torch.tensor({"train": [0, 1, 0, 1, 1], "test": [0, 1, 0]}[split])[index]

    # 0 is followed by 1 twice: (0 + 1, 2 + 1) of 4; 1 by 0 and 1 once each: (1 + 1, 1 + 1) of 4
    assert by_pairs(Text()) == pytest.approx((3 / 4 * 2 / 4) ** -0.5)


def test_switched_parts_have_names(pretended: Callable[[float], dict[str, Sweep]]) -> None:
    names = set(arms(pretended(1.0)["ablations_ffl_cpu"]))
    assert {
        "tra",
        "tra (threshold: off)",
        "tra (distance: absolute)",
        "tra (gate: head)",
        "tra (qk_norm: off)",
    } <= names
    assert "tra (threshold: off, distance: absolute)" in names


def test_a_share_has_its_exact_interval() -> None:
    """Clopper and Pearson: with 8 of 8 the lower end solves p^8 = 0.025."""
    found = share(8, 8)
    assert found.low == pytest.approx(0.025 ** (1 / 8)) and found.high == 1.0
    assert share(0, 0).n == 0
