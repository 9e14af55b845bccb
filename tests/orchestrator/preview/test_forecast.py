"""What `plan` says of a sweep that is too large for this machine."""

from pathlib import Path

import pytest

from orchestrator.preview import forecast as module
from orchestrator.preview.forecast import forecast
from search_spaces import load_sweep

QUICKSTART = Path(__file__).parents[3] / "search_spaces" / "quickstart.yaml"


@pytest.mark.parametrize("workers", [None, 2])
def test_a_small_step_is_measured(workers: int | None, tmp_path: Path) -> None:
    rows = dict(forecast(load_sweep(QUICKSTART, overrides=("evaluation.samples=20",)), workers, tmp_path).rows())
    assert rows["time"].startswith("about ") and float(rows["operations"].split()[0]) > 1e10


@pytest.mark.parametrize("limit", ["PATIENCE", "MEMORY_SHARE"])
def test_a_step_too_large_for_this_machine_is_not_tried(
    limit: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, limit, 0.0)
    monkeypatch.setattr(module, "calibrate", lambda *_, **__: pytest.fail("a step was tried"))
    rows = dict(forecast(load_sweep(QUICKSTART), 2, tmp_path).rows())
    assert rows["time"] == "not measured: a step is too large for this machine"
