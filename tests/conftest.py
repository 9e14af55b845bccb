"""What tests of every folder use."""

import io
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console


@pytest.fixture
def run_inline(tmp_path: Path) -> Callable[..., Path]:
    """run_inline(FILE, "key=value", ..., name=None) runs a sweep file to its end in this process, without Ray.

    Returns the sweep's folder, which is in the test's own.
    """

    def run(file: Path, *overrides: str, name: str | None = None) -> Path:
        from orchestrator.sweep import run_sweep
        from search_spaces import load_sweep

        spec = load_sweep(file, [*overrides, "resources.scheduler=inline", "tracking.enabled=false"], name)
        said = io.StringIO()
        outcome = run_sweep(spec, tmp_path, Console(file=said, width=160))
        assert outcome.exit_code == 0, said.getvalue()
        return outcome.folder

    return run
