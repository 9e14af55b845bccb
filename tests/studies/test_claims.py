"""The claims are decided as the curves say: planted effects are found, reversed ones refused, noise decides nothing."""

import importlib.util
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from orchestrator.curve_store import write_part
from orchestrator.ledger import Ledger
from orchestrator.plan import configure
from orchestrator.search import draw_sample
from search_spaces import load_sweep
from trainers.config import MemberConfig
from trainers.results import Evaluation

sys.path.insert(0, str(Path(__file__).parent))
from claims import all_claims, hyperparameters
from gallery import write_gallery
from measures import Effect, Sweep, paired_effect

FILES = sorted((Path(__file__).parents[2] / "search_spaces" / "set_complement").glob("*_cpu.yaml"))
DIAGNOSTICS = ("attention_uniformity", "balance", "table_displacement")


def pretend(file: Path, storage: Path, effect: float) -> Sweep:
    """The ledger of a shipped sweep whose members never trained: noise, and an effect wherever a claim has one."""
    spec = load_sweep(file)
    drawn = draw_sample(spec, spec.search.configurations or 1)
    configurations = configure(spec, [(draw.number, draw.values) for draw in drawn])
    folder = storage / spec.name
    first = {"name": spec.name, "study": spec.study, "spec": spec.resolved(), "spec_hash": spec.spec_hash}
    seen: set[str] = set()
    with Ledger.create(folder, {**first, "provenance": {}}) as ledger:
        for one in configurations:
            if one.config_id in seen:
                continue
            seen.add(one.config_id)
            members = [one.member(seed) for seed in spec.seeds]
            ledger.append(
                "configuration", number=one.number, config_id=one.config_id, values=one.values,
                resolved=one.resolved, duplicate_of=None,
            )  # fmt: skip
            pack, pairs, steps = (
                f"p{one.number}",
                [(one.config_id, seed) for seed in spec.seeds],
                one.resolved["training"],
            )
            ledger.append("pack", pack_id=pack, structural_key="k", members=pairs, steps=steps["steps"])
            every = one.resolved["evaluation"]["every"]
            for step in range(every, steps["steps"] + 1, every):
                evaluation = invented(members, step, effect)
                part, sha256 = write_part(folder, pack, pairs, evaluation)
                ledger.append(
                    "evaluation", pack_id=pack, step=step, final=evaluation.final, file=part, sha256=sha256,
                    loss=evaluation.loss_M, failed_at=evaluation.failed_at_M, seconds=1.0, form="table", compiled=False,
                )  # fmt: skip
            ledger.append("pack_end", pack_id=pack, status="complete", error=None, seconds=1.0)
        ledger.append("end", status="complete", message="")
    return Sweep(folder)


def invented(members: list[MemberConfig], step: int, effect: float) -> Evaluation:
    lead = members[0]
    metrics = tuple(dict.fromkeys((*lead.task.metrics, *DIAGNOSTICS)))
    values = np.stack([member_values(member, metrics, effect) for member in members])
    return Evaluation(
        step=step, final=step == lead.optimization.steps, averages=tuple(lead.averages), metrics=metrics,
        lengths=lead.evaluated_lengths, values_MAKL=values.astype(np.float32), loss_M=np.zeros(len(members)),
        failed_at_M=np.full(len(members), -1), seconds=1.0, form="table", compiled=False,
    )  # fmt: skip


def member_values(member: MemberConfig, metrics: tuple[str, ...], effect: float) -> np.ndarray:
    """(averages, metrics, lengths) of one member."""
    s = np.array(member.evaluated_lengths, dtype=np.float64)
    rng = np.random.default_rng([1, member.seed, int(member.config_id, 16)])
    model, task = member.model, member.task
    wide = getattr(model, "width", 99) >= 9 and (getattr(model, "value_width", None) or 99) >= 9
    error = 0.4 + 0.004 * rng.normal() - 4 * effect * model.dropout - effect * (model.norm == "post")
    table = []
    for label in member.averages:
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


@pytest.fixture(scope="module")
def pretended(tmp_path_factory: pytest.TempPathFactory) -> Callable[[float], dict[str, Sweep]]:
    known: dict[float, dict[str, Sweep]] = {}

    def make(effect: float) -> dict[str, Sweep]:
        if effect not in known:
            storage = tmp_path_factory.mktemp("pretended")
            known[effect] = {file.stem: pretend(file, storage, effect) for file in FILES}
        return known[effect]

    return make


def test_planted_effects_hold(pretended: Callable[[float], dict[str, Sweep]]) -> None:
    by_letter = {claim.letter: claim for claim in all_claims(pretended(0.05))}
    assert [claim.parts[0].answer for claim in by_letter.values()] == ["held"] * 6
    assert [part.answer for part in by_letter["a"].parts] == ["held"] * 4
    assert by_letter["d"].parts[1].answer == "held"  # more with sampled targets, as planted


def test_reversed_effects_do_not_hold(pretended: Callable[[float], dict[str, Sweep]]) -> None:
    answers = {claim.letter: claim.parts[0].answer for claim in all_claims(pretended(-0.05))}
    assert {answers[letter] for letter in "bcdef"} == {"did not hold"}


def test_noise_decides_nothing(pretended: Callable[[float], dict[str, Sweep]]) -> None:
    answers = {claim.letter: claim.parts[0].answer for claim in all_claims(pretended(0.0))}
    assert {answers[letter] for letter in "cdef"} == {"not decided"}


def test_selection_never_looks_at_test_lengths(pretended: Callable[[float], dict[str, Sweep]]) -> None:
    for sweep in pretended(0.05).values():
        assert not set(sweep.selection) & set(sweep.test) and not set(sweep.trained) & set(sweep.test)


def test_the_search_finds_the_planted_dropout_and_norm(pretended: Callable[[float], dict[str, Sweep]]) -> None:
    raw = {row[0]: row for row in hyperparameters(pretended(0.05)["random_search_cpu"])[0].rows}
    assert re.match(r"-0\.\d+ \[-0\.\d+, -0\.\d+\]", raw["model.dropout"][2])  # with the others held
    assert float(re.findall(r"p = (\S+)", raw["model.norm"][1])[0]) < 0.001
    assert not any(".ema." in name for name in raw)


def test_the_gallery_has_every_claim_and_small_pictures(
    pretended: Callable[[float], dict[str, Sweep]], tmp_path: Path
) -> None:
    page = write_gallery(pretended(0.05), tmp_path)
    text = page.read_text(encoding="utf-8")
    for letter in "abcdef":
        assert f"\n## ({letter}) " in text
    pictures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text)
    assert len(pictures) == 6
    for picture in pictures:
        assert (tmp_path / picture).stat().st_size < 300_000
    for file in FILES:
        assert file.stem in text


@pytest.mark.parametrize("configurations", [4, 6, 9, 12, 30])
def test_intervals_cover_as_often_as_they_say(configurations: int) -> None:
    rng, covered = np.random.default_rng(0), 0
    names = [f"c{number:02}" for number in range(configurations)]
    rows = pd.DataFrame({"config_id": np.repeat(names, 3), "seed": [0, 1, 2] * configurations})
    for _ in range(200):
        shared = np.repeat(rng.normal(size=configurations), 3)
        one = rows.assign(value=shared + 0.3 * rng.normal(size=len(rows)))
        effect = paired_effect(one, rows.assign(value=0.0))
        covered += effect.low <= 0 <= effect.high
    assert 174 <= covered <= 198  # 190 of 200 is nominal; resampling a dozen medians covers a little less


def test_a_failed_member_is_counted_and_not_compared() -> None:
    rows = pd.DataFrame({"config_id": ["a"] * 5, "seed": range(5)})
    effect = paired_effect(rows.assign(value=[1.0, 1.0, 1.0, 1.0, np.nan]), rows.assign(value=0.5))
    assert (effect.value, effect.n, effect.dropped) == (0.5, 4, 1) and "1 failed" in str(effect)


@pytest.mark.parametrize(
    ("low", "high", "better", "answer"),
    [
        (-2.0, -1.0, "smaller", "held"),
        (-2.0, -1.0, "larger", "did not hold"),
        (1.0, 2.0, "larger", "held"),
        (-1.0, 1.0, "smaller", "not decided"),
        (np.nan, np.nan, "smaller", "not decided"),
    ],
)
def test_answers(low: float, high: float, better: str, answer: str) -> None:
    effect = Effect(value=0.0, low=low, high=high, n=5, unit="seeds")
    assert effect.verdict(better) == answer


def test_make_studies_runs_each_sweep_once(
    pretended: Callable[[float], dict[str, Sweep]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = importlib.util.spec_from_file_location("studies_run", Path(__file__).with_name("run.py"))
    assert spec and spec.loader
    run = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(run)
    said: list[tuple[str, ...]] = []
    monkeypatch.setattr(run, "lengthwise", lambda *words: said.append(words) or 0)
    file = next(file for file in FILES if file.stem == "two_lengths_cpu")
    finished = pretended(0.0)["two_lengths_cpu"].folder
    assert run.bring_to_its_end(file, finished.parent) == 0 and said == []
    assert run.bring_to_its_end(file, tmp_path) == 0
    assert said.pop() == ("run", str(file), "--storage", str(tmp_path))

    interrupted = tmp_path / "two_lengths_cpu"
    shutil.copytree(finished, interrupted)
    lines = (interrupted / "events.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (interrupted / "events.jsonl").write_text("".join(lines[:-1]), encoding="utf-8")
    assert run.bring_to_its_end(file, tmp_path) == 0
    assert said.pop() == ("resume", str(interrupted))

    other = tmp_path / "two_lengths_cpu.yaml"
    text = file.read_text(encoding="utf-8").replace("steps: 6000", "steps: 7000")
    other.write_text(text, encoding="utf-8")
    monkeypatch.setattr(run, "ROOT", tmp_path)
    assert run.bring_to_its_end(other, tmp_path) == 2 and said == []
