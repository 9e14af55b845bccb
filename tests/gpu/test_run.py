"""The check of a device runs to its end, here on the CPU, and writes what it saw."""

import json
import runpy
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from trainers.training import step

pytestmark = pytest.mark.slow


RUN = Path(__file__).parent / "run.py"


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], int]:
    """`main` of run.py, in this process."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    return runpy.run_path(str(RUN), run_name="run")["main"]


def test_every_part_runs_and_is_written_down(main, tmp_path, monkeypatch, capsys):
    # What the compiler makes is tested elsewhere. `compile_program` caches: here it would return the program of an
    # earlier test, or cache an uncompiled function for later tests.
    monkeypatch.setattr(step, "compile_program", lambda function, device: function)
    monkeypatch.setattr(torch, "compile", lambda function, **options: function)
    code = main(["--device", "cpu", "--toy", "--minutes", "0.01", "--out", str(tmp_path)])
    output = capsys.readouterr().out
    assert code == 0, output
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["torch"] == torch.__version__ and results["device"] == "cpu"
    assert list(results["parts"]) == [line.split(":")[0] for line in output.splitlines()]
    for part in results["parts"].values():
        assert part["rows"] and all(row["good"] is True for row in part["rows"])
    assert results["parts"]["speed"]["left"] and "; no time was left for " in output
    page = (tmp_path / "results.md").read_text()
    assert all(f"## {name}" in page for name in results["parts"])


def test_a_device_that_is_not_there_is_refused(main, tmp_path, capsys):
    if torch.cuda.is_available():
        asked, message = ["--minutes", "-1"], "allowed: more than 0"
    else:
        asked, message = ["--device", "cuda"], "torch finds no CUDA device here; allowed: cpu"
    with pytest.raises(SystemExit) as ended:
        main([*asked, "--out", str(tmp_path / "new")])
    assert ended.value.code == 2 and message in capsys.readouterr().err and not (tmp_path / "new").exists()
