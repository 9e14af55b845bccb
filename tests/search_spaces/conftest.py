"""A small valid sweep file to damage in one place at a time, and the modules of the published examples."""

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from search_spaces import FileProblem, SweepFileError, load_sweep

PUBLISHED = Path(__file__).parents[2] / "search_spaces" / "examples" / "published"

VALID = """\
name: tiny
study: set_complement
task: {name: set_complement, vocabulary: 20}
model:
  name: attention_only
  norm: none
  dropout: 0.0
training:
  steps: 100
  learning_rate: 0.003
  averages:
    raw: {}
    ema: {decay: 0.99}
space:
  training.learning_rate: {log_uniform: [1.0e-4, 1.0e-2]}
  model.norm: {grid: [none, pre, post]}
search: {configurations: 6}
seeds: 8
evaluation:
  every: 50
  lengths: [5, 6, 7, 19]
objective:
  metric: total_variation
  average: ema
  lengths: [6, 7]
  direction: minimize
resources: {pack: auto}
tracking: {enabled: false}
"""


@pytest.fixture
def valid_text() -> str:
    return VALID


@pytest.fixture
def sweep_file(tmp_path: Path) -> Callable[[str | bytes], Path]:
    """Writes a sweep file and returns its path."""

    def write(text: str | bytes = VALID) -> Path:
        path = tmp_path / "sweep.yaml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.fixture
def edited(sweep_file: Callable[[str | bytes], Path]) -> Callable[..., Path]:
    """Writes the valid file with one text, which must occur exactly once, replaced by another."""

    def write(old: str, new: str) -> Path:
        assert VALID.count(old) == 1, f"{old!r} occurs {VALID.count(old)} times"
        return sweep_file(VALID.replace(old, new))

    return write


@pytest.fixture
def problems() -> Callable[..., tuple[FileProblem, ...]]:
    """The problems of a file that must be refused."""

    def refuse(path: Path, *overrides: str, name: str | None = None) -> tuple[FileProblem, ...]:
        with pytest.raises(SweepFileError) as caught:
            load_sweep(path, overrides, name)
        text = str(caught.value)
        assert text.splitlines() == [str(problem) for problem in caught.value.problems], "one line for each problem"
        return caught.value.problems

    return refuse


@pytest.fixture
def load(own_code_forgotten: None, monkeypatch: pytest.MonkeyPatch):
    def load_module(name: str) -> ModuleType:
        spec = importlib.util.spec_from_file_location(name, PUBLISHED / f"{name}.py")
        assert spec and spec.loader
        module = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, name, module)
        spec.loader.exec_module(module)
        return module

    return load_module
