"""The claims on set complement: planted effects are found, reversed ones refused, noise decides nothing."""

import re
from pathlib import Path

import numpy as np

from orchestrator.studies import run
from orchestrator.studies.set_complement.claims import all_claims
from orchestrator.studies.set_complement.page import write_page
from orchestrator.studies.set_complement.search import hyperparameters
from orchestrator.studies.studies import STUDIES
from tests.orchestrator.studies.conftest import Pretended
from trainers.config.member import MemberConfig

FILES = {file.stem: file for file in STUDIES["set_complement"].files}
DIAGNOSTICS = ("attention_uniformity", "balance", "table_displacement")
PRETENDED = {"more": DIAGNOSTICS, "seeds": 6}  # the fewest that have an interval


def member_values(member: MemberConfig, number: int, metrics: tuple[str, ...], step: int, effect: float) -> np.ndarray:
    """(averages, metrics, lengths) of one member: noise, and an effect wherever a claim has one."""
    s = np.array(member.evaluated_lengths, dtype=np.float64)
    rng = np.random.default_rng([1, member.seed, number])
    model, task = member.model, member.task
    wide = getattr(model, "width", 99) >= 9 and (getattr(model, "value_width", None) or 99) >= 9
    error = 0.4 + 0.004 * rng.normal() - 4 * effect * model.dropout - effect * (model.norm == "post")
    table = []
    for label in member.training.averages:
        averaged = label != "raw"
        gain = averaged * effect * (2.0 if task.target == "sampled" else 1.0)
        here = error - gain + (0.1 if not wide else 0.0) + 0.002 * averaged * rng.normal() + 0 * s
        sharp = 1.0 + effect * (model.norm == "post") + 0.01 * rng.normal()
        drawn = {
            "total_variation": here, "invalid_mass": here, "invalid_top1": here,
            "margin_min": (10.0 if wide else -1.0) / s - (effect < 0) * 1.0, "margin_bound": 10.0 / s,
            "balance": 0.05 + 0 * s, "table_displacement": 10.0 + 0 * s, "displacement": sharp + 0 * s,
            "attention_uniformity": sharp + 0 * s,
        }  # fmt: skip
        table.append([drawn.get(metric, 0 * s) for metric in metrics])
    return np.array(table)


def test_planted_effects_hold(pretended: Pretended) -> None:
    by_letter = {claim.letter: claim for claim in all_claims(pretended(0.05))}
    assert [claim.parts[0].answer for claim in by_letter.values()] == ["held"] * 6
    assert [part.answer for part in by_letter["a"].parts] == ["held"] * 4
    assert by_letter["d"].parts[1].answer == "held"  # more with sampled targets, as planted
    changes = by_letter["c"].tables[1]
    assert "change against no dropout, median over seeds" in changes.title


def test_reversed_effects_do_not_hold(pretended: Pretended) -> None:
    answers = {claim.letter: claim.parts[0].answer for claim in all_claims(pretended(-0.05))}
    assert {answers[letter] for letter in "bcdef"} == {"did not hold"}


def test_noise_decides_nothing(pretended: Pretended) -> None:
    answers = {claim.letter: claim.parts[0].answer for claim in all_claims(pretended(0.0))}
    assert {answers[letter] for letter in "cdef"} == {"not decided"}


def test_selection_never_looks_at_test_lengths(pretended: Pretended) -> None:
    for sweep in pretended(0.05).values():
        assert not set(sweep.selection) & set(sweep.test) and not set(sweep.trained) & set(sweep.test)


def test_the_search_finds_the_planted_dropout_and_norm(pretended: Pretended) -> None:
    raw = {row[0]: row for row in hyperparameters(pretended(0.05)["random_search_cpu"])[0].rows}
    assert re.match(r"-0\.\d+ \[-0\.\d+, -0\.\d+\]", raw["model.dropout"][2])  # with the others held
    assert float(re.findall(r"p = (\S+)", raw["model.norm"][1])[0]) < 0.001
    assert not any(".ema." in name for name in raw)


def test_the_gallery_has_every_claim_and_small_pictures(pretended: Pretended, tmp_path: Path) -> None:
    page = write_page(pretended(0.05), tmp_path)
    text = page.read_text(encoding="utf-8")
    for letter in "abcdef":
        assert f"\n## ({letter}) " in text
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text)
    assert len(pictures) == 6
    for picture in pictures:
        assert (tmp_path / picture).stat().st_size < 300_000
    for file in FILES.values():
        assert file.stem in text
    assert set(re.findall(r"python -m (\S+)", text)) == {run.__spec__.name}
