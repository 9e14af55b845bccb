"""The module `pages` of this folder for its tests, and a folder in which the examples of the pages can run."""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from search_spaces import load_sweep

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(Path(__file__).parent))

QUICKSTART = (
    "training.steps=6",
    "training.compile=false",
    "seeds=2",
    "search.configurations=2",
    "evaluation.every=3",
    "evaluation.samples=20",
)
RING = ("task.ring=11", "task.window=4", "task.betas=[0.5]", "model.width=6", "training.steps=6", "evaluation.every=3")


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> Iterator[None]:
    """Train with one thread, as a worker does."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sweep files, and in sweeps/ what two of them gave: shortened, and trained in this process."""
    folder = tmp_path_factory.mktemp("sandbox")
    (folder / "search_spaces").symlink_to(ROOT / "search_spaces")
    found = importlib.util.spec_from_file_location("stages", ROOT / "tests/orchestrator/running/conftest.py")
    assert found is not None and found.loader is not None
    stages = importlib.util.module_from_spec(found)
    found.loader.exec_module(stages)
    for file, changes in {
        "search_spaces/quickstart.yaml": (*QUICKSTART, "objective.lengths=[6]"),
        "search_spaces/arithmetic/fig9_ring.yaml": (*RING, "objective.lengths=[1]"),
    }.items():
        spec = load_sweep(ROOT / file, changes)
        stage = stages.Stage(folder / "sweeps" / spec.name, spec)
        stage.begin()
        stage.play()
    return folder
