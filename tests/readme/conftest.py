"""The module `pages` of this folder for its tests, and a folder in which the examples of the pages can run."""

import io
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from rich.console import Console

from orchestrator.sweep import run_sweep
from search_spaces import load_sweep

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parent))

RING = (
    "space={}",
    "seeds=1",
    "task.ring=11",
    "task.window=4",
    "task.betas=[0.5]",
    "model.width=6",
    "training.steps=6",
    "evaluation.every=3",
)


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """Train with one thread, as a worker does."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sweep files, a finished sweep as sweeps/quickstart, and a small ring that has kept its weights."""
    folder = tmp_path_factory.mktemp("sandbox")
    (folder / "search_spaces").symlink_to(ROOT / "search_spaces")
    shutil.copytree(ROOT / "tests" / "sweeps" / "0.1.0" / "finished", folder / "sweeps" / "quickstart")
    overrides = [*RING, "objective.lengths=[1]", "resources.scheduler=inline", "tracking.enabled=false"]
    spec = load_sweep(ROOT / "search_spaces" / "arithmetic" / "fig9_ring.yaml", overrides)
    assert run_sweep(spec, folder / "sweeps", Console(file=io.StringIO())).exit_code == 0
    return folder
