"""The check of a device runs to its end, here on the CPU, and writes what it saw."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.slow


RUN = Path(__file__).parent / "run.py"


def test_every_part_runs_and_is_written_down(tmp_path):
    command = [sys.executable, RUN, "--device", "cpu", "--toy", "--minutes", "0.05", "--out", tmp_path]
    eager = {**os.environ, "TORCHDYNAMO_DISABLE": "1"}  # what is compiled is tested elsewhere
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=eager)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "results.json").read_text())
    assert found["torch"] == torch.__version__ and found["device"] == "cpu"
    assert list(found["parts"]) == [line.split(":")[0] for line in done.stdout.splitlines()]
    for part in found["parts"].values():
        assert part["rows"] and all(row["good"] is True for row in part["rows"])
    assert found["parts"]["speed"]["left"] and "; no time was left for " in done.stdout
    page = (tmp_path / "results.md").read_text()
    assert all(f"## {name}" in page for name in found["parts"])


def test_a_device_that_is_not_there_is_refused(tmp_path):
    if torch.cuda.is_available():
        asked, said = ["--minutes", "-1"], "allowed: more than 0"
    else:
        asked, said = ["--device", "cuda"], "torch finds no CUDA device here; allowed: cpu"
    done = subprocess.run([sys.executable, RUN, *asked, "--out", tmp_path / "new"], capture_output=True, text=True)
    assert done.returncode == 2 and said in done.stderr and not (tmp_path / "new").exists()
