"""Sweeps of a task with three test sets, which is a module of the user's own."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.command_line import CommandLine
from tests.no_reports import leave_out_reports

SWEEP = """name: sets
study: tests
imports: [three_sets]
task: {name: three_sets}
model: {name: attention_only, width: 8, value_width: 8}
training: {steps: 60, batch_size: 16, learning_rate: 0.01, compile: false, averages: {raw: {}, ema: {decay: 0.5}}}
space:
  training.learning_rate: {grid: [0.0001, 0.01, 0.02, 0.04]}
seeds: 2
evaluation: {every: 10, samples: 200}
objective: {metric: accuracy.hard, average: raw, lengths: [3], direction: maximize}
resources: {scheduler: inline}
tracking: {enabled: false}
"""


@pytest.fixture
def study(tmp_path: Path, own_code_forgotten: None) -> Path:
    """The file of a sweep over four learning rates, judged on the harder set, with the module of its task beside it."""
    folder = tmp_path / "study"
    folder.mkdir()
    shutil.copy(Path(__file__).with_name("three_sets.py"), folder)
    (folder / "sets.yaml").write_text(SWEEP)
    return folder / "sets.yaml"


@pytest.fixture(scope="session")
def _finished() -> dict[tuple[str, ...], Path]:
    """The finished sweeps by their overrides."""
    return {}


@pytest.fixture
def ran(
    study: Path, run_inline: Callable[..., Path], _finished: dict[tuple[str, ...], Path], tmp_path: Path
) -> Callable[..., Path]:
    """ran("key=value", ...) runs it once, without a report, and returns a copy; with a name it runs it anew."""

    def run(*overrides: str, name: str | None = None) -> Path:
        if name is None and overrides in _finished:
            return Path(shutil.copytree(_finished[overrides], tmp_path / "sets"))
        with leave_out_reports():
            folder = run_inline(study, *overrides, name=name)
        if name is None:
            _finished[overrides] = Path(shutil.copytree(folder, tmp_path / "finished" / "sets"))
        return folder

    return run


@pytest.fixture
def lengthwise_says(lengthwise: CommandLine) -> Callable[..., str]:
    """lengthwise_says("validate", FILE) runs a verb here and returns what it prints."""
    return lambda *words: " ".join(lengthwise(*words).stdout.split())
