"""A sweep with an empty MLflow store beside it, reports that cost nothing, and what a store should hold of it."""

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from orchestrator.record.state.state import SweepState
from orchestrator.results.summary import Summary
from orchestrator.tracking.publish import publish as publish_sweep

SPEC = {"task.vocabulary": 8, "objective.lengths": [6]}
DRAWS = [{"training.learning_rate": 10.0**-k, "training.batch_size": 16 * k} for k in (2, 3, 4)]


@pytest.fixture
def reports(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders whose report was written; it is a page of a few bytes."""
    written: list[Path] = []

    def write(folder: Path, result: Summary, curves: pd.DataFrame) -> None:
        written.append(folder)
        (folder / "report.html").write_bytes(b"<p>The page.</p>")

    monkeypatch.setattr("orchestrator.tracking.publish.write_report", write)
    monkeypatch.setattr("orchestrator.figures.figure_files.render_curves", lambda *_: b"A picture.")
    return written


@pytest.fixture
def publish(reports: list[Path]) -> Callable[..., Any]:
    """`publish` with such reports."""
    return publish_sweep


@pytest.fixture
def build(synthetic_sweep: Callable[..., SweepState], simple_curve: Any) -> Callable[..., SweepState]:
    """Writes a sweep into a folder: the first `count` of DRAWS, each with so many seeds, dotted keys on top of SPEC."""

    def make(
        folder: Path,
        count: int = 3,
        seeds: int = 3,
        *,
        curve: Any = simple_curve,
        failed: Any = None,
        spec: Mapping[str, Any] | None = None,
    ) -> SweepState:
        return synthetic_sweep(folder, DRAWS[:count], seeds, curve, failed, spec={**SPEC, **(spec or {})})

    return make


@pytest.fixture
def sweep(tmp_path: Path, build: Callable[..., SweepState], fresh_store: Path) -> SweepState:
    """Three configurations of three seeds; one seed of number 1 failed, every seed of number 2."""
    state = build(tmp_path / "store" / "läng e", failed={(1, 2): 60, (2, 0): 10, (2, 1): 10, (2, 2): 10})
    for store in ("mlflow", "whole", "cut", "growing"):
        shutil.copy(fresh_store, state.folder.parent / f"{store}.db")
    return state


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore what MLflow's own use of sqlalchemy brings."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SADeprecationWarning"))
