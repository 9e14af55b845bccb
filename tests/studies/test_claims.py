"""What claims and pages of every study rest on: intervals, answers, and which sweeps are run."""

import importlib.util
import shutil
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
import pytest
from claims import within
from measures import Effect, effect_over, paired_effect
from pretended import pretend
from studies import STUDIES, Study

from search_spaces import load_sweep
from trainers.config.member import MemberConfig


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


def test_three_units_are_enough_for_an_interval_and_two_are_not() -> None:
    rng = np.random.default_rng(0)
    effects = [effect_over([[value] for value in rng.normal(size=3)], "seeds") for _ in range(400)]
    assert 366 <= sum(effect.low <= 0 <= effect.high for effect in effects) <= 394  # 380 is nominal
    assert effect_over([[1.0], [1.1]], "seeds").verdict("larger") == "not decided"


def test_a_failed_member_is_counted_and_not_compared() -> None:
    rows = pd.DataFrame({"config_id": ["a"] * 5, "seed": range(5)})
    effect = paired_effect(rows.assign(value=[1.0, 1.0, 1.0, 1.0, np.nan]), rows.assign(value=0.5))
    assert (effect.value, effect.n, effect.dropped) == (0.5, 4, 1) and "1 failed" in str(effect)


@pytest.mark.parametrize(
    ("low", "high", "answer"),
    [
        (0.2, 0.8, "held"),
        (0.1, 0.9, "held"),
        (-0.5, 0.05, "did not hold"),
        (0.95, 2.0, "did not hold"),
        (0.0, 0.5, "not decided"),
        (0.0, 1.0, "not decided"),
        (np.nan, np.nan, "not decided"),
    ],
)
def test_answers_about_a_range(low: float, high: float, answer: str) -> None:
    assert within(Effect(value=0.0, low=low, high=high, n=5, unit="seeds"), 0.1, 0.9) == answer


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


def nothing(member: MemberConfig, metrics: tuple[str, ...], step: int) -> np.ndarray:
    return np.zeros((len(member.averages), len(metrics), len(member.evaluated_lengths)))


@pytest.fixture
def run() -> ModuleType:
    spec = importlib.util.spec_from_file_location("studies_run", Path(__file__).with_name("run.py"))
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def said(run: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The commands that would have run."""
    words: list[tuple[str, ...]] = []
    monkeypatch.setattr(run, "lengthwise", lambda *given: words.append(given) or 0)
    return words


def unfinished(finished: Path, folder: Path) -> None:
    shutil.copytree(finished, folder)
    lines = (folder / "events.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "events.jsonl").write_text("".join(lines[:-1]), encoding="utf-8")


def test_make_studies_runs_each_sweep_once(
    run: ModuleType, said: list[tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = next(file for file in STUDIES["set_complement"].files if file.stem == "two_lengths_cpu")
    finished = pretend(file, tmp_path / "finished", nothing, evaluations=1).folder
    assert run.bring_to_its_end(file, finished.parent) == 0 and said == []
    assert run.bring_to_its_end(file, tmp_path) == 0
    assert said.pop() == ("run", str(file), "--storage", str(tmp_path))

    interrupted = tmp_path / "two_lengths_cpu"
    unfinished(finished, interrupted)
    assert run.bring_to_its_end(file, tmp_path) == 0
    assert said.pop() == ("resume", str(interrupted))

    other = tmp_path / "two_lengths_cpu.yaml"
    text = file.read_text(encoding="utf-8").replace("steps: 6000", "steps: 7000")
    other.write_text(text, encoding="utf-8")
    monkeypatch.setattr(run, "ROOT", tmp_path)
    assert run.bring_to_its_end(other, tmp_path) == 2 and said == []


def test_a_study_runs_its_files_and_no_others(
    run: ModuleType, said: list[tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "write_page", lambda study, storage: 0)
    ran: dict[str, list[Path]] = {}
    for name in STUDIES:
        assert run.main(["--study", name, "--storage", str(tmp_path)]) == 0
        ran[name] = [Path(words[1]) for words in said]
        said.clear()
        assert ran[name] == list(STUDIES[name].files)
        assert all(file.parent.name == name and load_sweep(file).name == file.stem for file in ran[name])
    assert {"fig9_ring", "fig15_ring_m5", "fig2_addition_cpu"} <= {file.stem for file in ran["arithmetic"]}
    assert run.main(["--storage", str(tmp_path)]) == 0
    assert [Path(words[1]) for words in said] == [file for files in ran.values() for file in files]
    said.clear()
    assert run.main(["--gallery-only"]) == 0 and said == []


def test_a_page_names_the_sweeps_it_lacks(
    run: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {file.stem: file for file in STUDIES["set_complement"].files}
    asked = [files[name] for name in ("two_lengths_cpu", "dims_cliff_cpu", "othello_cpu")]
    monkeypatch.setattr(Study, "files", asked)
    wrote: list[list[str]] = []
    study = Study(name="set_complement", write=lambda sweeps, folder: wrote.append(sorted(sweeps)) or folder)
    for file in asked[:2]:
        pretend(file, tmp_path / "whole", nothing, evaluations=1)
    unfinished(tmp_path / "whole" / "two_lengths_cpu", tmp_path / "part" / "two_lengths_cpu")
    assert run.write_page(study, tmp_path / "part") == 2 and not wrote
    printed = capsys.readouterr().out
    assert "set_complement" in printed and f"lengthwise resume {tmp_path / 'part' / 'two_lengths_cpu'}" in printed
    for missing in ("dims_cliff_cpu", "othello_cpu"):
        assert f"search_spaces/set_complement/{missing}.yaml has not been run" in printed

    monkeypatch.setattr(Study, "files", asked[:2])  # what else is in the storage does not matter
    assert run.write_page(study, tmp_path / "whole") == 0
    assert wrote == [["dims_cliff_cpu", "two_lengths_cpu"]]
    next((tmp_path / "whole" / "dims_cliff_cpu" / "curves").iterdir()).write_bytes(b"")
    reads = Study(name="set_complement", write=lambda sweeps, folder: sweeps["dims_cliff_cpu"].curves)
    assert run.write_page(reads, tmp_path / "whole") == 2
    assert "is not what was written" in capsys.readouterr().out

    other = tmp_path / "two_lengths_cpu.yaml"
    other.write_text(asked[0].read_text(encoding="utf-8").replace("steps: 6000", "steps: 7000"), encoding="utf-8")
    monkeypatch.setattr(Study, "files", [other])
    monkeypatch.setattr(run, "ROOT", tmp_path)
    assert run.write_page(study, tmp_path / "whole") == 2
    assert "is of another version of two_lengths_cpu.yaml" in capsys.readouterr().out
