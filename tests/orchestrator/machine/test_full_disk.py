"""A disk that is full interrupts a sweep and fails no pack; resumed, it ends as if nothing had been."""

import errno
import os
import pickle
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestrator.errors import OutOfSpace
from orchestrator.machine.exhaustion import convert_full_disk_errors, find_out_of_space
from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.record.ledger.records import read_records
from orchestrator.record.state.state import SweepState
from orchestrator.report import write_report as report_module
from tests.orchestrator.running.ledgers import keyed, sets

SETTINGS = (
    "training.steps=20",
    "evaluation.every=10",
    "resources.keep_weights=true",
    "resources.pack=2",
    "model.width=48",
)


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """A write beyond it is cut short and then fails (EFBIG), as on a file system that fills up."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.fixture(scope="module")
def undisturbed(lengthwise, tiny_text, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    (folder / "tiny.yaml").write_text(tiny_text)
    lengthwise.succeeds("run", folder / "tiny.yaml", "--storage", folder, *words())
    return folder / "tiny"


def words(*more: str) -> list[str]:
    return sets(*SETTINGS, *more)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("scheduler", "full", "steps"),
    [
        ("local", "checkpoints/*/*", 10),
        ("inline", "weights/*", "null"),
        ("inline", LEDGER_FILE, "null"),
    ],
)
def test_a_full_disk_costs_nothing(lengthwise, tiny, tmp_path, undisturbed, scheduler, full, steps, no_reports) -> None:
    limit = max(path.stat().st_size for path in undisturbed.glob(full)) * 3 // 4
    more = (f"resources.scheduler={scheduler}", f"resources.checkpoint_steps={steps}")
    with files_no_larger_than(limit):
        ran = lengthwise("run", tiny, "--storage", tmp_path, *words(*more))
    folder = tmp_path / "tiny"
    assert ran.returncode == 130, ran
    (line,) = [line for line in ran.stdout.splitlines() if "for lack of space" in line]
    assert str(folder if full == LEDGER_FILE else folder / full.partition("/*")[0]) in line
    assert "the file system at /" in line and "MiB free" in line and f"lengthwise resume {folder}" in line
    records = read_records(folder)
    assert not any(record.kind in ("attempt", "retry") for record in records)
    assert not any(pack.status == "failed" for pack in SweepState.load(folder).packs.values())
    lengthwise.succeeds("resume", folder)
    assert keyed(folder).equals(keyed(undisturbed))
    assert SweepState.load(folder).end_status == "complete"


def test_a_disk_that_is_full_when_all_is_trained(lengthwise, tiny, tmp_path, undisturbed, monkeypatch) -> None:
    def full(path: Path, parts: Any) -> None:
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(report_module, "write_atomic", full)
        ran = lengthwise("run", tiny, "--storage", tmp_path, *words())
    assert ran.returncode == 130 and "for lack of space" in ran.stdout and "report.html" in ran.stdout
    resumed = lengthwise("resume", tmp_path / "tiny")
    assert resumed.returncode == 0 and (tmp_path / "tiny" / "report.html").exists()
    assert keyed(tmp_path / "tiny").equals(keyed(undisturbed))


def test_what_is_a_lack_of_space() -> None:
    full = OSError(errno.ENOSPC, "No space left on device", "/nowhere/below/file")
    try:
        try:
            raise full
        except OSError as error:
            raise RuntimeError("worse") from error
    except RuntimeError as error:
        message = str(find_out_of_space(error, Path("/tmp")))
    assert message.startswith("/nowhere/below/file: No space left on device; the file system at / has ")
    assert find_out_of_space(OSError(errno.EACCES, "no"), Path("/tmp")) is None
    with pytest.raises(OutOfSpace, match=r"^/tmp: full"), convert_full_disk_errors(Path("/tmp")):
        raise OSError(errno.ENOSPC, "full")
    assert str(pickle.loads(pickle.dumps(OutOfSpace("one")))) == "one"
