"""`make studies` runs what is missing and nothing twice, and says which sweeps a page lacks."""

import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from orchestrator.studies import run
from orchestrator.studies.measures import Sweep
from orchestrator.studies.studies import STUDIES, Study
from search_spaces import load_sweep
from trainers.config.member import MemberConfig


def nothing(member: MemberConfig, number: int, metrics: tuple[str, ...], step: int) -> np.ndarray:
    return np.zeros((len(member.training.averages), len(metrics), len(member.evaluated_lengths)))


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The commands that would have run."""
    words: list[tuple[str, ...]] = []
    monkeypatch.setattr(run, "lengthwise", lambda *given: words.append(given) or 0)
    return words


def unfinished(finished: Path, folder: Path) -> None:
    shutil.copytree(finished, folder)
    lines = (folder / "events.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    (folder / "events.jsonl").write_text("".join(lines[:-1]), encoding="utf-8")


def test_make_studies_runs_each_sweep_once(
    pretend: Callable[..., Sweep], said: list[tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    said: list[tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
    pretend: Callable[..., Sweep],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
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


def test_what_make_and_the_gallery_call_is_there_and_runs_from_anywhere(tmp_path: Path) -> None:
    pages = sorted(run.GALLERY.glob("*.md"))
    assert {page.stem for page in pages} == set(STUDIES)
    called = [re.findall(r"-m (orchestrator\S+)", file.read_text()) for file in (run.ROOT / "Makefile", *pages)]
    assert all(called) and {module for modules in called for module in modules} == {"orchestrator.studies.run"}
    assert importlib.util.find_spec("orchestrator.studies.run")
    words = ("--gallery-only", "--study", "arithmetic", "--storage", str(tmp_path))
    ended = subprocess.run(
        [sys.executable, "-m", "orchestrator.studies.run", *words], cwd=tmp_path, capture_output=True, text=True
    )
    assert ended.returncode == 2 and "search_spaces/arithmetic/fig9_ring.yaml has not been run" in ended.stdout
