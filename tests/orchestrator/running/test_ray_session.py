"""A Ray that cannot be had is refused in a sentence, whatever Ray raises, and nothing of it is left."""

import tempfile
from pathlib import Path
from typing import Any

import pytest
import ray

from orchestrator.errors import UserError
from orchestrator.running.with_ray import nodes, ray_session
from orchestrator.running.with_ray import start as ray_start

ERRORS = [
    TimeoutError("timed out after 30 s"),
    ConnectionError("nobody listens"),
    Exception("The current node timed out during startup."),
    SystemExit(1),
]


@pytest.mark.parametrize(("visible", "gpus"), [("MIG-5a,MIG-7c", 2), ("0,1", None), ("", None), (None, None)])
def test_a_local_ray_has_every_part_of_a_card_that_may_be_used(
    visible: str | None, gpus: int | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = dict[str, Any]()
    monkeypatch.setattr(ray, "init", lambda **settings: given.update(settings))
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(ray_start, "MAX_PARENT_CHARACTERS", 1000)
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    local = ray_start.get_local_ray()
    local.wait()
    local.end()
    assert given.get("num_gpus") == gpus and given["num_cpus"] >= 1


@pytest.mark.parametrize("address", [None, "10.0.0.1:6379"])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_ray_that_cannot_be_had_is_refused(
    error: BaseException, address: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def init(**settings: Any) -> None:
        raise error

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(ray_start, "MAX_PARENT_CHARACTERS", 1000)
    monkeypatch.setenv("RAY_ADDRESS", address or "")
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    where = f"RAY_ADDRESS={address}: Ray cannot be reached" if address else "a local Ray cannot be started"
    with pytest.raises(UserError) as raised, ray_session.connect_to_ray(1, 0):
        pass
    assert str(raised.value).startswith(f"{where}: {error}; ")
    assert not list(tmp_path.iterdir()) and not ray_start._local_rays


def test_the_connection_is_ended_if_the_resources_of_a_pack_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(cpus: float, gpus: float) -> dict[str, float]:
        raise UserError("no such resources")

    ended = list[bool]()
    monkeypatch.setattr(ray, "init", lambda **settings: None)
    monkeypatch.setattr(ray, "shutdown", lambda: ended.append(True))
    monkeypatch.setattr(nodes, "make_pack_resources", refuse)
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    with pytest.raises(UserError), ray_session.connect_to_ray(1, 0):
        pass
    assert ended == [True]
