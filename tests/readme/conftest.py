"""The module `pages` of this folder for its tests, and a folder in which the examples of the pages can run."""

import io
import shutil
import sys
from pathlib import Path

import pytest
from rich.console import Console

from orchestrator.sweep.run_and_resume import run_sweep
from search_spaces import load_sweep
from tests.startup.sitecustomize import blank

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


INDUCTION = (
    "space={}",
    "seeds=1",
    "task.test_lengths=[15]",
    "model.width=8",
    "training.steps=2",
    "evaluation={every: 2, samples: 4}",
)


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sweep files, a finished sweep as sweeps/quickstart, and two small ones that have kept their weights."""
    folder = tmp_path_factory.mktemp("sandbox")
    (folder / "search_spaces").symlink_to(ROOT / "search_spaces")
    shutil.copytree(ROOT / "tests" / "sweeps" / "1.0.0" / "finished", folder / "sweeps" / "quickstart")
    inline = ("resources.scheduler=inline", "tracking.enabled=false")
    for file, overrides in (
        ("arithmetic/fig9_ring.yaml", [*RING, "objective.lengths=[1]"]),
        ("threshold_attention/table1_induct_cpu.yaml", [*INDUCTION, "training.compile=false"]),
    ):
        spec = load_sweep(ROOT / "search_spaces" / file, [*overrides, *inline])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("orchestrator.figures.drawing.save_figure", blank)
            assert run_sweep(spec, folder / "sweeps", Console(file=io.StringIO())).exit_code == 0
    return folder
