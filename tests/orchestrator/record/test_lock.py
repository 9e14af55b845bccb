"""One driver at a time, between real processes, and free at once when one is killed."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from orchestrator.errors import LedgerError, SweepLocked, UserError
from orchestrator.record.ledger.folders import OWNER_FILE
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.lock import (
    HEARTBEAT_SECONDS,
    Owner,
    SweepLock,
    describe_running_driver,
    read_owner,
)
from orchestrator.record.ledger.records import read_records

HOLDER = """
import sys
from pathlib import Path
from orchestrator.record.ledger.lock import SweepLock
with SweepLock(Path(sys.argv[1]), heartbeat_seconds=0.05):
    print("held", flush=True)
    sys.stdin.readline()
"""

FORKING_HOLDER = """
import os, sys, time
from pathlib import Path
from orchestrator.record.ledger.lock import SweepLock
SweepLock(Path(sys.argv[1])).acquire()
if not os.fork():
    print(os.getpid(), flush=True)  # by now the fork is complete, and filelock has closed the child's copy
    time.sleep(60)
    os._exit(0)
time.sleep(60)
"""

RACER = """
import sys
from pathlib import Path
from orchestrator.errors import SweepLocked
from orchestrator.record.ledger.ledger import Ledger
print("ready", flush=True)
sys.stdin.readline()
try:
    ledger = Ledger.open(Path(sys.argv[1]))
except SweepLocked:
    print("refused", flush=True)
else:
    print("won", flush=True)
    sys.stdin.readline()
    ledger.close()
"""

FIRST = {"name": "s", "study": "t", "spec": {}, "spec_hash": "h", "provenance": {}}

Starter = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starter]:
    """Start a script with the sweep folder as argument; what still runs at the end is killed."""
    started: list[subprocess.Popen[str]] = []

    def _start(script: str, folder: Path) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        return process

    yield _start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def holder(tmp_path: Path, start: Starter) -> subprocess.Popen[str]:
    """A process that holds the lock of `tmp_path`."""
    process = start(HOLDER, tmp_path)
    assert first_line(process) == "held"
    return process


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_a_second_driver_is_refused_with_the_name_of_the_first(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(SweepLocked) as caught:
        SweepLock(tmp_path).acquire()
    message = str(caught.value)
    assert message.startswith(f"{tmp_path}: another driver is running: ")
    assert f"@{socket.gethostname()} pid {holder.pid}, last heartbeat " in message
    assert isinstance(caught.value, UserError)
    assert caught.value.exit_code == 2
    assert (describe_running_driver(tmp_path) or "").split(", last")[0] == message.split(
        " another driver is running: "
    )[1].split(", last")[0]


def test_a_killed_owner_leaves_the_lock_free_at_once(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert describe_running_driver(tmp_path) is None
    with SweepLock(tmp_path):
        owner = read_owner(tmp_path)
        assert owner is not None
        assert owner.pid == os.getpid()


def test_a_child_of_a_killed_owner_does_not_keep_the_lock(tmp_path: Path, start: Starter) -> None:
    holder = start(FORKING_HOLDER, tmp_path)
    child = int(first_line(holder))
    try:
        assert describe_running_driver(tmp_path) is not None
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        os.kill(child, 0)  # it lives
        assert describe_running_driver(tmp_path) is None
    finally:
        os.kill(child, signal.SIGKILL)


def test_a_stopped_owner_keeps_the_lock_and_its_heartbeat_grows_old(
    tmp_path: Path, holder: subprocess.Popen[str]
) -> None:
    holder.send_signal(signal.SIGSTOP)
    time.sleep(1.2)
    with pytest.raises(SweepLocked, match=r"last heartbeat [1-9]\d* s ago"):
        SweepLock(tmp_path).acquire()


def test_whoever_reads_while_the_heartbeat_is_written_finds_an_owner(tmp_path: Path) -> None:
    (tmp_path / OWNER_FILE).write_text("x" * 2000)  # longer than what replaces it
    with SweepLock(tmp_path, heartbeat_seconds=0.0):
        for _ in range(3000):
            assert read_owner(tmp_path) is not None
    assert sorted(path.name for path in tmp_path.iterdir()) == [".lock"]


def test_the_heartbeat_is_refreshed_until_release(tmp_path: Path) -> None:
    with SweepLock(tmp_path, heartbeat_seconds=0.02) as lock:
        beats = set()
        until = time.monotonic() + 600
        while len(beats) < 4 and time.monotonic() < until:
            owner = read_owner(tmp_path)
            assert owner is not None
            beats.add(owner.heartbeat)
            time.sleep(0.01)
        assert len(beats) == 4
        assert len({read.started for read in [read_owner(tmp_path)] if read}) == 1
        lock.release()
    assert read_owner(tmp_path) is None
    assert describe_running_driver(tmp_path) is None


def test_exactly_one_of_many_drivers_wins(tmp_path: Path, start: Starter) -> None:
    Ledger.create(tmp_path / "s", FIRST).close()
    racers = [start(RACER, tmp_path / "s") for _ in range(3)]
    assert [first_line(racer) for racer in racers] == ["ready"] * 3
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    assert sorted(map(first_line, racers)) == ["refused"] * 2 + ["won"]
    for racer in racers:
        racer.communicate()
    Ledger.open(tmp_path / "s").close()  # the winner has released it
    assert len(read_records(tmp_path / "s")) == 1


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody waits for a lock that this process itself holds."""
    monkeypatch.setattr("orchestrator.record.ledger.lock.ACQUIRE_SECONDS", 0.02)


@pytest.mark.usefixtures("impatient")
def test_two_ledgers_of_one_process_exclude_each_other(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "s", FIRST):
        with pytest.raises(SweepLocked):
            Ledger.open(tmp_path / "s")
        with pytest.raises(SweepLocked):
            Ledger.create(tmp_path / "s", FIRST)
    Ledger.open(tmp_path / "s").close()


def test_a_failed_open_frees_the_lock(tmp_path: Path) -> None:
    Ledger.create(tmp_path / "s", FIRST).close()
    (tmp_path / "s" / "events.jsonl").write_bytes(b"damage\n")
    for _ in range(2):
        with pytest.raises(LedgerError, match="checksum"):
            Ledger.open(tmp_path / "s")


GOOD = {"host": "lab3", "pid": 4711, "user": "ada", "started": 1.0, "heartbeat": 2.0}
odd_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from([10**400, -1, "a\nb", "\x1b[2J"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
odd_contents = st.one_of(
    st.binary(),
    odd_values.map(lambda value: json.dumps(value).encode()),
    st.fixed_dictionaries({}, optional=dict.fromkeys(GOOD, odd_values)).map(
        lambda odd: json.dumps(GOOD | odd).encode()
    ),
    st.sampled_from([b"[" * 100_000, b"9" * 100_000, b" " * 10**7, b'{"a":' * 2000, b"{}" * 10**6]),
)


@given(content=odd_contents)
def test_any_contents_of_the_owner_file_are_an_owner_or_damaged(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    folder = tmp_path_factory.mktemp("odd")
    with SweepLock(folder, heartbeat_seconds=1000):
        (folder / OWNER_FILE).write_bytes(content)
        description = describe_running_driver(folder) or ""
        assert description.isprintable() and len(description) < 9000
        assert re.fullmatch(
            r".*@.* pid \d+, last heartbeat \d+ s ago|an unknown process \(\.owner\.json is .*damaged\)", description
        )


ODD_FIELDS = [{"heartbeat": None}, {"heartbeat": math.nan}, {"heartbeat": 10**400}, {"pid": True}, {"user": "a\x1b[2J"}]


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b'{"host": "x"}', b"\xff", b'{"surprise": 1}']
    + [json.dumps(GOOD | odd).encode() for odd in ODD_FIELDS],
    ids=lambda content: content[-20:],
)
@pytest.mark.usefixtures("impatient")
def test_an_unreadable_owner_is_an_unknown_process(tmp_path: Path, content: bytes) -> None:
    (tmp_path / OWNER_FILE).write_text(json.dumps(GOOD))
    assert read_owner(tmp_path) == Owner(**GOOD)
    with SweepLock(tmp_path):
        (tmp_path / OWNER_FILE).write_bytes(content)
        with pytest.raises(SweepLocked, match="another driver is running: an unknown process"):
            SweepLock(tmp_path).acquire()


def test_a_heartbeat_that_cannot_be_written_does_not_stop_the_owner(tmp_path: Path) -> None:
    lock = SweepLock(tmp_path / "s", heartbeat_seconds=0.01)
    (tmp_path / "s").mkdir()
    lock.acquire()
    shutil.rmtree(tmp_path / "s")
    time.sleep(0.1)
    lock.release()
    assert not (tmp_path / "s").exists()


def test_a_sweep_on_a_read_only_disk_is_judged_by_its_heartbeat(small_disk: Path) -> None:
    owner = {"host": "lab3", "pid": 4711, "user": "ada", "started": 1.0}
    (small_disk / ".lock").touch()
    for name, age in (("fresh", 1.0), ("old", 60.0)):
        (small_disk / OWNER_FILE).write_text(json.dumps({**owner, "heartbeat": time.time() - age}))
        subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
        described = describe_running_driver(small_disk)
        subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
        if name == "fresh":
            assert described is not None
            assert described.startswith("ada@lab3 pid 4711, last heartbeat ")
        else:
            assert described is None


@pytest.mark.parametrize(("age_in_heartbeats", "is_alive"), [(2.5, True), (3.1, False), (-20.0, True)])
def test_an_owner_is_alive_for_three_heartbeats(age_in_heartbeats: float, is_alive: bool) -> None:
    """One whose clock is ahead, so that its heartbeat is in the future, is alive."""
    owner = Owner(**GOOD | {"heartbeat": time.time() - age_in_heartbeats * HEARTBEAT_SECONDS})
    assert owner.is_alive is is_alive


def test_a_full_disk_refuses_the_lock_and_leaves_it_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int, mode: str) -> None:
        os.close(descriptor)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fdopen", full)
    with pytest.raises(LedgerError, match=f"{tmp_path / OWNER_FILE}: cannot be written: No space left on device"):
        SweepLock(tmp_path).acquire()
    monkeypatch.undo()
    with SweepLock(tmp_path):
        pass


def test_asking_who_runs_a_sweep_leaves_no_trace(tmp_path: Path) -> None:
    assert describe_running_driver(tmp_path) is None
    assert list(tmp_path.iterdir()) == []
