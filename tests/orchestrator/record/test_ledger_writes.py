"""Writing to a ledger: what was acknowledged survives kill -9, and a failed write leaves nothing half counted."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from orchestrator.errors import LedgerError
from orchestrator.record.ledger import ledger as ledger_module
from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.records import read_records
from tests.orchestrator.record.ledgers import FIRST, same

APPENDER = """
import sys
from pathlib import Path
from orchestrator.record.ledger.ledger import Ledger
with Ledger.open(Path(sys.argv[1])) as ledger:
    while True:
        print(ledger.append("attempt", pack_id="p", attempt=1, error="x" * 500).seq, flush=True)
"""


@pytest.mark.parametrize("delay", [0.0, 0.013, 0.05])
def test_what_was_acknowledged_survives_kill_9(folder: Path, delay: float) -> None:
    writer = subprocess.Popen([sys.executable, "-c", APPENDER, str(folder)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    acknowledged = [int(writer.stdout.readline()) for _ in range(20)]
    time.sleep(delay)
    writer.send_signal(signal.SIGKILL)
    acknowledged += [int(line) for line in writer.stdout.read().split()]
    writer.stdout.close()
    writer.wait()
    with Ledger.open(folder) as ledger:
        following = ledger.append("end", status="interrupted", message="").seq
    assert acknowledged == list(range(5, 5 + len(acknowledged)))
    assert following - acknowledged[-1] in (1, 2)  # a record may be complete that nobody was told of yet


def fill(folder: Path) -> tuple[int, LedgerError]:
    """Append until it fails, check that nothing is half counted, and return how many were acknowledged."""
    acknowledged = 0
    with Ledger.create(folder, FIRST) as ledger:
        with pytest.raises(LedgerError) as caught:
            while acknowledged < 10_000:
                ledger.append("attempt", pack_id="p", attempt=acknowledged, error="x" * 1000)
                acknowledged += 1
        content = (folder / LEDGER_FILE).read_bytes()
        assert content.endswith(b"}\n")
        assert content.count(b"\n") == 1 + acknowledged
    with Ledger.open(folder) as ledger:
        assert ledger.notice is None
    return acknowledged, caught.value


def test_a_full_disk_counts_nothing_half(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 20_000)
    folder = small_disk / "sweep"
    acknowledged, error = fill(folder)
    assert str(error) == f"{folder / LEDGER_FILE}: cannot be written: No space left on device"
    assert 10 < acknowledged < 64
    ballast.unlink()
    with Ledger.open(folder) as ledger:
        assert ledger.append("end", status="complete", message="").seq == acknowledged + 1


def test_writing_to_a_ledger_continues_after_a_full_disk(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    with Ledger.create(small_disk / "sweep", FIRST) as ledger:
        ballast.write_bytes(b"x" * 45_000)
        with pytest.raises(LedgerError, match="No space left"):
            ledger.append("attempt", pack_id="p", attempt=0, error="x" * 20_000)
        ballast.unlink()
        assert ledger.append("attempt", pack_id="p", attempt=0, error="x" * 20_000).seq == 1
    assert [record.seq for record in read_records(small_disk / "sweep")] == [0, 1]


def test_no_sweep_begins_on_a_full_disk(small_disk: Path) -> None:
    folder = small_disk / "sweep"
    folder.mkdir()
    with pytest.raises(LedgerError, match=f"{folder / LEDGER_FILE}: cannot be written: No space left on device"):
        Ledger.create(folder, {**FIRST, "spec": "x" * 100_000})
    assert not [path for path in folder.iterdir() if path.name.startswith("events")]
    with Ledger.create(folder, FIRST) as ledger:  # the lock is free and nothing is in the way
        assert ledger.append("end", status="complete", message="").seq == 1


def test_a_read_only_disk_is_named(small_disk: Path) -> None:
    Ledger.create(small_disk / "sweep", FIRST).close()
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    assert len(read_records(small_disk / "sweep")) == 1
    with pytest.raises(LedgerError, match=rf"{small_disk / 'sweep'}.*: Read-only file system"):
        Ledger.open(small_disk / "sweep")
    with pytest.raises(LedgerError, match=f"{small_disk / 'new'}: cannot be created: Read-only file system"):
        Ledger.create(small_disk / "new", FIRST)


LIMITED = """
import sys, resource
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import test_ledger_writes
resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, resource.RLIM_INFINITY))
acknowledged, error = test_ledger_writes.fill(Path(sys.argv[1]))
print(acknowledged, error)
"""


def test_a_file_that_may_not_grow_counts_nothing_half(tmp_path: Path) -> None:
    folder = tmp_path / "sweep"
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, folder, Path(__file__).parent], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    acknowledged, message = done.stdout.split(maxsplit=1)
    assert message.strip() == f"{folder / LEDGER_FILE}: cannot be written: File too large"
    assert len(read_records(folder)) == 1 + int(acknowledged) > 20


def test_a_ledger_that_cannot_undo_a_failed_write_takes_no_more(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with Ledger.open(folder) as ledger:
        monkeypatch.setattr(ledger_module.os, "fsync", broken)
        with pytest.raises(LedgerError, match="Input/output error"):
            ledger.append("end", status="complete", message="")
        monkeypatch.undo()
        with pytest.raises(LedgerError, match=r"could not be undone.*nothing more can be recorded"):
            ledger.append("end", status="complete", message="")
    assert len(read_records(folder)) == 5


def test_each_record_is_synced_before_it_counts(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    real = os.fsync

    def watched(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_size)
        real(descriptor)

    monkeypatch.setattr(ledger_module.os, "fsync", watched)
    with Ledger.open(folder) as ledger:
        ledger.append("end", status="complete", message="")
        assert synced == [(folder / LEDGER_FILE).stat().st_size]
        ends = [{"status": "interrupted", "message": str(number)} for number in range(3)]
        written = ledger.append_all("end", ends)
        assert synced[1:] == [(folder / LEDGER_FILE).stat().st_size]
        written.append(ledger.append("end", **ends[0]))
    assert [record.fields for record in written] == [*ends, ends[0]] and same(read_records(folder)[-4:], written)


def test_records_written_together_are_all_cut_off_when_one_does_not_fit(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, before = os.write, read_records(folder)

    def full(descriptor: int, content: memoryview) -> int:
        if len(content) < 200:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, content[:200])

    with Ledger.open(folder) as ledger:
        monkeypatch.setattr(ledger_module.os, "write", full)
        with pytest.raises(LedgerError, match="No space left"):
            ledger.append_all("end", [{"status": "complete", "message": ""}] * 5)
        assert same(read_records(folder), before)
        monkeypatch.undo()
        assert ledger.append("end", status="complete", message="").seq == len(before)
