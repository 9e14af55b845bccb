"""A Ray that cannot be had is refused in a sentence, whatever Ray raises, and nothing of it is left."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
import ray

from orchestrator.errors import UserError
from orchestrator.running.with_ray import session as ray_session
from orchestrator.running.with_ray import start as ray_start

ERRORS = [
    TimeoutError("timed out after 30 s"),
    ConnectionError("nobody listens"),
    Exception("The current node timed out during startup."),
    SystemExit(1),
]


@pytest.mark.parametrize("address", [None, "10.0.0.1:6379"])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_ray_that_cannot_be_had_is_refused(
    error: BaseException, address: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def init(**settings: Any) -> None:
        raise error

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(ray_start, "LONGEST_PARENT", 1000)
    monkeypatch.setenv("RAY_ADDRESS", address or "")
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    where = f"RAY_ADDRESS={address}: Ray cannot be reached" if address else "a local Ray cannot be started"
    with pytest.raises(UserError) as raised, ray_session.connected(1, 0):
        pass
    assert str(raised.value).startswith(f"{where}: {error}; ")
    assert not list(tmp_path.iterdir()) and not ray_start._begun
