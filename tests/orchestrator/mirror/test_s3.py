"""Sweeps at an S3 address: killed and continued on another machine, two drivers, outages, wrong buckets."""

import itertools
import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator import storage
from orchestrator.mirror import driver_lock, mirrored_ledger
from orchestrator.mirror.worker_files import StopPoll
from orchestrator.record.ledger.folders import STOP_FILE
from orchestrator.running.schedulers import inline
from orchestrator.storage import ObjectStore
from tests.command_line import CommandLine, make_home
from tests.orchestrator.running.ledgers import records, wait_for
from tests.s3_server import BUCKET, Server, s3_server
from trainers.files.checkpoint import Checkpoints

STORAGE = f"s3://{BUCKET}/sweeps"
KILLED = """
import os, signal, sys, time
from orchestrator.mirror import mirrored_ledger
from orchestrator.record.ledger.ledger import Ledger

append_all = mirrored_ledger.MirroredLedger.append_all
evaluations, mirrored_ledger.COPY_SECONDS = 0, 0.02

def append_and_die(self, kind, entries):
    global evaluations
    records = append_all(self, kind, entries)
    evaluations += len(records) * (kind == "evaluation")
    if evaluations == 2:
        while self._copied_bytes < self._size:
            time.sleep(0.01)
        mirrored_ledger.MirroredLedger._copy = lambda *_, **more: None
    if evaluations == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    return records

mirrored_ledger.MirroredLedger.append_all = append_and_die
from orchestrator.__main__ import command
command()
"""


@pytest.fixture(scope="module")
def s3() -> Iterator[Server]:
    with s3_server() as server:
        yield server


@pytest.fixture(autouse=True)
def no_faults(s3: Server) -> Iterator[None]:
    yield
    s3.fault = lambda method, path: None


@pytest.fixture
def machines(s3: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Iterator[CommandLine]]:
    """Command lines of machines that share nothing but the storage."""
    made = []

    def machine() -> CommandLine:
        made.append(CommandLine(make_home(tmp_path_factory)))
        made[-1].environment |= {**s3.environment, "XDG_CACHE_HOME": str(made[-1].home / ".cache")}
        return made[-1]

    yield (machine() for _ in itertools.count())
    for command_line in made:
        command_line.close()


def folder_of(machine: CommandLine, name: str) -> Path:
    return machine.home / ".cache/lengthwise/storage/s3" / BUCKET / "sweeps" / name


def words(long_sweep, name: str, *more: str) -> list[str]:
    arguments = long_sweep.words(name, *more)
    arguments[arguments.index("--storage") + 1] = STORAGE
    return arguments


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.slow
def test_a_killed_sweep_is_continued_on_another_machine_and_the_first_is_refused(machines, long_sweep, monkeypatch):
    first, second, third = itertools.islice(machines, 3)
    killed = first.process(*words(long_sweep, "killed"), program=KILLED)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    here = folder_of(first, "killed")
    assert len(records(here, "evaluation")) == 4

    status = third("status", f"{STORAGE}/killed")
    assert status.returncode == 0 and "killed (study tests)" in status.stdout
    assert len(records(folder_of(third, "killed"), "evaluation")) == 2
    assert not (folder_of(third, "killed") / "checkpoints").exists()

    monkeypatch.setattr(driver_lock, "HEARTBEAT_TIMEOUT", 2.0)
    load, steps = Checkpoints.load, list[int]()

    def loaded(self, members):
        snapshot, notices = load(self, members)
        steps.append(snapshot.step if snapshot else 0)
        return snapshot, notices

    monkeypatch.setattr(Checkpoints, "load", loaded)
    resumed = second("resume", f"{STORAGE}/killed")
    assert resumed.returncode == 0, resumed.stderr
    assert len(steps) == 4 and steps[0] == 90 and steps[1] in (0, 15, 30) and not any(steps[2:])
    there = folder_of(second, "killed")
    long_sweep.ended_as_if_left_alone(there)
    assert str(there / "report.html") in resumed.stdout

    before = contents(here)
    refused = first("resume", f"{STORAGE}/killed")
    assert refused.returncode == 2 and "have different records" in refused.stderr
    assert contents(here) == before
    assert third("report", f"{STORAGE}/killed").returncode == 0
    ledgers = [(folder_of(machine, "killed") / "events.jsonl").read_bytes() for machine in (second, third)]
    assert ledgers[0] == ledgers[1]


@pytest.mark.slow
def test_a_killed_driver_is_resumed_where_it_was_at_once(machines, long_sweep, no_reports):
    machine = next(machines)
    assert machine.process(*words(long_sweep, "again"), program=KILLED).returncode == -signal.SIGKILL
    resumed = machine("resume", "again", "--storage", STORAGE)
    assert resumed.returncode == 0, resumed.stderr
    assert "waiting" not in resumed.stderr
    assert len(records(folder_of(machine, "again"), "evaluation")) == 12
    long_sweep.ended_as_if_left_alone(folder_of(machine, "again"))


@pytest.mark.slow
def test_a_second_driver_is_refused_and_one_that_was_taken_over_stops(machines, long_sweep, monkeypatch, no_reports):
    first, second = itertools.islice(machines, 2)
    running = long_sweep.start(first, *words(long_sweep, "two"))
    wait_for(lambda: records(folder_of(first, "two"), "evaluation"), running)
    wait_for(lambda: second("status", f"{STORAGE}/two").returncode == 0, running)
    refused = second("resume", f"{STORAGE}/two")
    assert refused.returncode == 2 and f"another driver is running: {os.environ.get('USER', 'root')}@" in refused.stderr
    assert f"pid {running.pid}" in refused.stderr
    assert "running" in second("list", "sweeps", "--storage", STORAGE).stdout

    os.kill(running.pid, signal.SIGSTOP)
    monkeypatch.setattr(driver_lock, "HEARTBEAT_TIMEOUT", 2.0)
    resumed = second("resume", f"{STORAGE}/two")
    assert resumed.returncode == 0, resumed.stderr
    long_sweep.ended_as_if_left_alone(folder_of(second, "two"))
    os.kill(running.pid, signal.SIGCONT)
    long_sweep.release()
    out, err = running.communicate()
    assert running.returncode == 1 and "this driver stops" in out + err and "Traceback" not in err


@pytest.mark.slow
def test_training_continues_while_the_storage_answers_with_errors(machines, long_sweep, s3, monkeypatch, no_reports):
    machine = next(machines)
    count = itertools.count()
    monkeypatch.setattr(mirrored_ledger, "COPY_SECONDS", 0.1)

    def fault(method: str, path: str) -> tuple[int, str] | None:
        number = next(count) if method == "PUT" else None
        return (500, "InternalError") if number is not None and (5 <= number < 20 or number % 3 == 0) else None

    s3.fault = fault
    done = machine(*words(long_sweep, "errors"))
    assert done.returncode == 0, done.stderr
    long_sweep.ended_as_if_left_alone(folder_of(machine, "errors"))
    other = next(machines)
    assert "finished" in other("status", f"{STORAGE}/errors").stdout


@pytest.mark.slow
def test_failed_copies_are_reported_at_the_end_and_repeated_by_resume(machines, long_sweep, s3, monkeypatch):
    machine, other = itertools.islice(machines, 2)
    for module in (storage, mirrored_ledger):
        monkeypatch.setattr(module, "RETRY_SECONDS", 1.0)
    s3.fault = lambda method, path: (500, "InternalError") if method == "PUT" and "/drivers/" not in path else None
    failed = machine(*words(long_sweep, "late", "resources.keep_weights=false"))
    assert failed.returncode == 1
    assert f"nothing was copied to {STORAGE}/late yet" in failed.stdout
    assert " is incomplete: " in failed.stdout and f"lengthwise resume {STORAGE}/late" in failed.stdout
    s3.fault = lambda method, path: None
    other.refuses("resume", f"{STORAGE}/late", message="is not a sweep")
    assert machine("resume", f"{STORAGE}/late").returncode == 0
    assert other("report", f"{STORAGE}/late").returncode == 0
    long_sweep.ended_as_if_left_alone(folder_of(machine, "late"))


@pytest.mark.slow
def test_the_first_records_are_there_before_the_first_pack_although_many_answers_are_errors(
    machines, long_sweep, s3, monkeypatch
):
    machine, other = itertools.islice(machines, 2)
    chance, train, copied = random.Random(0), inline.train_pack, list[bytes]()

    def train_pack(work, reporter):
        store = ObjectStore(work.address)
        copied.append(b"".join(store.read(store.list_sizes("ledger")).values()))
        train(work, reporter)

    monkeypatch.setattr(inline, "train_pack", train_pack)
    s3.fault = lambda method, path: (500, "InternalError") if chance.random() < 0.3 else None
    machine.succeeds(*words(long_sweep, "first", "training.steps=2", "evaluation.every=2"))
    assert b'"kind":"sweep"' in copied[0]
    ledgers = [folder_of(each, "first") / "events.jsonl" for each in (machine, other)]
    other.succeeds("status", f"{STORAGE}/first")
    assert ledgers[0].read_bytes() == ledgers[1].read_bytes()


def test_objects_are_sent_at_once_and_a_late_answer_does_not_delay_training(machines, s3, tmp_path, monkeypatch):
    for key, text in s3.environment.items():
        monkeypatch.setenv(key, text)
    names, all_there = [f"{number}.png" for number in range(8)], threading.Barrier(8, timeout=20)
    for name in names:
        (tmp_path / name).write_bytes(b"x")
    store, released = ObjectStore(f"{STORAGE}/late"), threading.Event()
    s3.fault = lambda method, path: all_there.wait() and None if method == "PUT" else None
    store.send(tmp_path, names)  # or the barrier breaks
    s3.fault = lambda method, path: None
    store.write(STOP_FILE, b"")
    s3.fault = lambda method, path: released.wait(20) and None
    poll, began = StopPoll(store.address), time.monotonic()
    assert not poll.is_stopped() and time.monotonic() - began < 10
    released.set()
    wait_for(poll.is_stopped)


@pytest.mark.parametrize("address, code", [("s3://nowhere/sweeps", None), (STORAGE, "InvalidAccessKeyId")])
def test_a_wrong_bucket_or_key_is_refused_before_anything_is_written(machines, long_sweep, s3, address, code):
    machine = next(machines)
    if code:
        s3.fault = lambda method, path: (403, code)
    given = words(long_sweep, "wrong")
    given[given.index(STORAGE)] = address
    refused = machine(*given)
    assert refused.returncode == 2, refused.stderr
    assert len(refused.stderr.splitlines()) == 1 and address in refused.stderr
    assert not (machine.home / ".cache/lengthwise/storage").exists()
    assert "Traceback" not in machine("status", f"{address}/wrong").stderr
