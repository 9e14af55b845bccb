"""The small sweep of several clusters, and the one that tests of running sweeps kill."""

import subprocess
import sys

import pandas as pd
import pytest

from tests.cluster.virtual_nodes import QUICKSTART, ROOT, SMALL, options, read_curves
from tests.orchestrator.tiny_sweeps import left_alone, long_sweep

__all__ = ["alone", "left_alone", "long_sweep"]


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """The curves of the small sweep in one process, without Ray."""
    storage = tmp_path_factory.mktemp("alone")
    command = [sys.executable, "-m", "orchestrator", "run", QUICKSTART, "--storage", str(storage)]
    subprocess.run(
        [*command, *options(*SMALL, "resources.scheduler=inline")], cwd=ROOT, check=True, capture_output=True
    )
    return read_curves(storage / "quickstart")
