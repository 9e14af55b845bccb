"""Machines that share a bucket."""

from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.mirror import driver_lock, mirrored_ledger
from tests.orchestrator.mirror.machines import Machine


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Machine]:
    """machine("a") is the machine of this name; all share a bucket."""
    monkeypatch.setattr(mirrored_ledger, "COPY_SECONDS", 0.01)
    monkeypatch.setattr(driver_lock, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(driver_lock, "HEARTBEAT_SECONDS", 0.05)
    return lambda name: Machine(tmp_path / name, tmp_path / "bucket")
