"""The studies of a GPU run, stop, go on where they stopped, and end in packed results and a page; here on the CPU."""

import subprocess
import sys
from pathlib import Path

import pytest

from orchestrator.claims.packed import read_packed

pytestmark = pytest.mark.long
STUDIES = Path(__file__).parent / "studies.py"
SMALL = ("training.steps=300", "training.schedule.warmup=1", "evaluation.every=20", "evaluation.samples=4", "seeds=2",
         "task.vocabulary=8", "task.train_length=3", "model.width=8", "model.value_width=8", "objective.lengths=[4]",
         "space.model.dropout={grid: [0.0, 0.1]}")  # fmt: skip


def run_studies(out: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    sets = [word for setting in SMALL for word in ("--set", setting)]
    command = [sys.executable, STUDIES, "--device", "cpu", "--studies", "noise_gpu", "--out", out, *sets, *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_study_stops_when_its_time_is_over_and_is_resumed_and_packed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    stopped = run_studies(out, "--minutes", "0.001")
    assert stopped.returncode == 0, stopped.stdout + stopped.stderr
    assert "stopped by its budget" in stopped.stdout and "0 of 12 claims are decided" in stopped.stdout
    ended = run_studies(out, "--minutes", "5")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    members = read_packed(out / "results" / "noise_gpu.tar.xz")
    assert members.state.ended == "complete" and len(members.state.configurations) == 4
    page = (out / "page.md").read_text()
    assert "With batches of 64 sampled targets" in page and "the sweep was not run" in page


def test_bad_input_starts_nothing(tmp_path: Path) -> None:
    done = run_studies(tmp_path / "new", "--minutes", "-1")
    assert done.returncode == 2 and "allowed: more than 0" in done.stderr and not (tmp_path / "new").exists()
