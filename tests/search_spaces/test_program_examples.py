"""The example sweeps of training scripts run as they are, and resume a script where it stopped."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from orchestrator import open_sweep
from search_spaces import load_sweep
from tests.command_line import CommandLine
from tests.orchestrator.running.ledgers import sets

FOLDER = Path(__file__).parents[2] / "search_spaces" / "examples" / "programs"
FILES = sorted(FOLDER.glob("*.yaml"))
BINARIES = (Path(sys.executable).parent, Path(torch.__file__).parents[4] / "bin")  # of python and torchrun


def by_name(quick: tuple[str, ...] = ()) -> pytest.MarkDecorator:
    marked = [pytest.param(file, id=file.stem, marks=[pytest.mark.slow] * (file.stem not in quick)) for file in FILES]
    return pytest.mark.parametrize("file", marked)


@by_name(quick=("bash",))
def test_example(file: Path, lengthwise: CommandLine, tmp_path: Path) -> None:
    """In four steps one seed of the first grid point reports a value of its metric at each due step and length."""
    lengthwise.environment["PATH"] = os.pathsep.join([*map(str, BINARIES), os.environ["PATH"]])
    lengthwise.environment["XLA_FLAGS"] = "--xla_backend_optimization_level=0"  # JAX compiles longer than it computes
    spec = load_sweep(file)
    short = [f"space.{key}={{grid: [{domain.values[0]}]}}" for key, domain in spec.space.items()]
    if spec.evaluation["every"]:
        short += ["training.steps=4", "evaluation.every=2"]
    short += ["seeds=1", "resources.scheduler=inline", "tracking.enabled=false"]
    spec = load_sweep(file, short)
    lengthwise.succeeds("run", file, "--storage", tmp_path, *sets(*short))
    sweep = open_sweep(tmp_path / spec.name)
    steps, every = spec.training["steps"], spec.evaluation["every"]
    lengths = spec.evaluation.get("lengths", [1])
    expected = {
        (number, 0, length, step)
        for number in sweep.configurations.index
        for length in lengths
        for step in (range(every, steps + 1, every) if every else [steps])
    }
    keys = sweep.curves[["number", "seed", "length", "step"]]
    assert sorted(keys.itertuples(index=False, name=None)) == sorted(expected)
    assert np.isfinite(sweep.curves["value"]).all()


def test_every_script_has_a_sweep() -> None:
    scripts = [path.name for path in FOLDER.iterdir() if path.suffix in (".py", ".sh")]
    commands = [str(load_sweep(file).program["command"]) for file in FILES]
    assert all(any(script in command for command in commands) for script in scripts)
