"""A sweep of lengthwise itself, whose curves are imported again, and a table of another program's results."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from orchestrator import Sweep, import_table, run
from tests.no_reports import leave_out_reports

OWN = {
    "name": "own",
    "study": "tests",
    "task": {"name": "set_complement", "vocabulary": 8, "train_length": 3},
    "model": {"name": "attention_only", "width": 8, "value_width": 8},
    "training": {"steps": 6, "batch_size": 8, "compile": False, "averages": {"raw": {}, "ema": {"decay": 0.9}}},
    "space": {"training.learning_rate": {"log_uniform": [0.001, 0.1]}, "training.batch_size": {"choice": [8, 16]}},
    "search": {"configurations": 4},
    "seeds": 3,
    "evaluation": {"samples": 10, "every": 3},
    "objective": {"metric": "total_variation", "average": "ema", "lengths": [4, 5], "direction": "minimize"},
    "resources": {"scheduler": "inline"},
    "tracking": {"enabled": False},
}


@pytest.fixture(scope="session")
def original_sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """A finished sweep of four configurations with three seeds, evaluated at two steps."""
    with leave_out_reports():
        return run(OWN, storage=tmp_path_factory.mktemp("own"), console=Console(file=io.StringIO()))


@pytest.fixture
def rows() -> pd.DataFrame:
    """The table of `make_rows`."""
    return make_rows()


def make_rows() -> pd.DataFrame:
    """Return two configurations with three seeds, two steps, and accuracy at three lengths; all values differ."""
    keys = [(lr, seed, step) for lr in (0.1, 0.01) for seed in range(3) for step in (100, 200)]
    frame = pd.DataFrame(
        [(lr, 64, seed, step, "accuracy", length) for lr, seed, step in keys for length in (5, 10, 20)],
        columns=["lr", "width", "seed", "step", "metric", "length"],
    )
    return frame.assign(value=np.linspace(0.0, 1.0, len(frame)).round(4))


@pytest.fixture
def imported(tmp_path: Path) -> Callable[..., Sweep]:
    """imported(table, ...) imports a table of accuracies to a folder of the test."""

    def do(table: pd.DataFrame | str | Path, **options: object) -> Sweep:
        console = Console(file=io.StringIO())
        given = {"name": "imported", "metrics": {"accuracy": "maximize"}, "lengths": [20], **options}
        return import_table(table, storage=tmp_path, console=console, **given)  # type: ignore[arg-type]

    return do
