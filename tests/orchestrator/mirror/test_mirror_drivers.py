"""Drivers of a sweep at an address: who may write, and who takes over from a dead one."""

import threading
import time
from functools import partial

import numpy as np
import pytest

from orchestrator.errors import SweepLocked, TakenLedger
from orchestrator.mirror import driver_lock
from orchestrator.mirror.driver_lock import DriverLock
from orchestrator.mirror.fetch import fetch_sweep
from orchestrator.mirror.mirrored_ledger import FILES_PER_HEARTBEAT, create_ledger, open_ledger
from orchestrator.record.ledger.records import read_records
from orchestrator.storage import ObjectStore
from tests.orchestrator.mirror.machines import FIRST, copied_bytes
from tests.orchestrator.running.ledgers import wait_for


def test_a_driver_that_was_taken_over_overwrites_nothing(machine, monkeypatch):
    monkeypatch.setattr(driver_lock, "HEARTBEAT_TIMEOUT", 0.1)
    with machine("a") as folder:
        hung = create_ledger(folder, FIRST)
        wait_for(lambda: copied_bytes(machine("a").bucket))
        hung._ending.set()  # its thread ends, as if it hung before its next copy
        hung._thread.join()
    with machine("b") as other:
        with open_ledger(other) as ledger:
            ledger.append("publish", uri=None, ok=True, message="b")
        content = (other / "events.jsonl").read_bytes()
    with machine("a"):
        hung.append("publish", uri=None, ok=True, message="much later" * 1000)
        hung._copy(hung._driver_lock, hung._store)
        assert copied_bytes(machine("a").bucket) > len(content)
        hung._driver_lock = None
        hung.close()
    with machine("c") as reader:
        fetch_sweep(reader)
        assert (reader / "events.jsonl").read_bytes() == content


def test_a_driver_that_was_taken_over_while_it_ended_copies_nothing(machine, monkeypatch):
    monkeypatch.setattr(driver_lock, "HEARTBEAT_TIMEOUT", 0.1)
    monkeypatch.setattr(driver_lock, "HEARTBEAT_SECONDS", 0.05)
    with machine("a") as folder:
        suspended = create_ledger(folder, FIRST)
        wait_for(lambda: copied_bytes(machine("a").bucket))
        suspended._ending.set()  # its thread ends, as if suspended before its next heartbeat
        suspended._thread.join()
    with machine("b") as other:
        open_ledger(other).close()
    there = {path: path.read_bytes() for path in machine("a").bucket.rglob("*") if path.is_file()}
    with machine("a"):
        suspended.append("publish", uri=None, ok=True, message="late" * 1000)
        (folder / "late.yaml").touch()
        suspended.close()
    assert "has taken over" in suspended.problem
    changed = {
        path.name for path in machine("a").bucket.rglob("*") if path.is_file() and there.get(path) != path.read_bytes()
    }
    assert changed == {"000001.json"}  # its own lock, which it released


def test_the_heartbeat_continues_while_many_files_are_copied(machine, monkeypatch):
    with machine("a") as folder:
        ledger = create_ledger(folder, FIRST)
        (folder / "figures").mkdir()
        for number in range(3 * FILES_PER_HEARTBEAT):
            (folder / "figures" / f"{number}.png").touch()
        sent, counts = [0], list[int]()
        send, beat = ObjectStore.send, ledger._driver_lock.beat

        def count_sent(store, folder, names):
            sent[0] += len(names)
            send(store, folder, names)

        def count_beat():
            counts.append(sent[0])
            beat()

        monkeypatch.setattr(ObjectStore, "send", count_sent)
        ledger._driver_lock.beat = count_beat
        ledger.close()
    assert sent[0] >= 3 * FILES_PER_HEARTBEAT
    assert max(np.diff([*counts, sent[0]])) <= FILES_PER_HEARTBEAT


def test_a_living_owner_is_not_taken_over_and_a_dead_one_is(machine, monkeypatch):
    with machine("a") as folder:
        ledger = create_ledger(folder, FIRST)
    bucket, size = machine("a").bucket, ledger.path.stat().st_size
    wait_for(lambda: copied_bytes(bucket) == size)
    with machine("b") as other:
        with pytest.raises(SweepLocked, match="another driver is running"):
            open_ledger(other)
        beat, ledger._driver_lock.beat = ledger._driver_lock.beat, lambda: None  # the first one hangs
        monkeypatch.setattr(driver_lock, "HEARTBEAT_TIMEOUT", 0.1)
        with open_ledger(other) as second:
            second.append("publish", uri=None, ok=True, message="b")
    ledger._driver_lock.beat = beat
    with pytest.raises(TakenLedger, match="this driver stops"):
        for _ in range(1000):
            ledger.append("publish", uri=None, ok=True, message="a")
            time.sleep(0.01)
    ledger.close()
    assert "has taken over" in ledger.problem
    with machine("b"):
        fetch_sweep(other)
    assert [record.fields.get("message") for record in read_records(other)] == [None, "b"]


@pytest.mark.parametrize("others", [1, 2])
def test_of_two_that_take_over_at_once_one_is_refused(machine, others):
    with machine("a") as folder:
        folder.mkdir(parents=True)
        store = ObjectStore.from_local_copy(folder)
        late = DriverLock(store, folder)
        store_create, taken = store.create, []

        def create(name: str, content: bytes) -> bytes:
            for _ in range(0 if taken else others):  # a second one frees the number of the first
                taken.append(DriverLock(ObjectStore.from_local_copy(folder), folder))
                taken[-1].acquire()
                taken[-1].release()
            return store_create(name, content)

        store.create = create
        with pytest.raises(SweepLocked):
            late.acquire()


def test_a_driver_that_waits_for_a_heartbeat_continues_when_the_other_one_ends(machine, tmp_path, monkeypatch):
    with machine("a") as folder:
        folder.mkdir(parents=True)
        (tmp_path / "elsewhere").mkdir()
        first = DriverLock(ObjectStore.from_local_copy(folder), tmp_path / "elsewhere")
        first.acquire()
        monkeypatch.setattr(driver_lock, "_POLL_SECONDS", 0.05)
        ended = partial(ObjectStore.from_local_copy(folder).write, "drivers/000001.json", b"ended")
        began, ending = time.monotonic(), threading.Timer(0.2, ended)
        ending.start()
        second = DriverLock(ObjectStore.from_local_copy(folder), folder)
        second.acquire()
        second.release()
        ending.join()
        assert time.monotonic() - began < driver_lock.HEARTBEAT_TIMEOUT / 2


def test_a_second_run_does_not_take_over_the_one_that_has_just_begun(machine, monkeypatch):
    """Both run on one machine: the second has seen no ledger, and has not the lock of the folder."""
    with machine("a") as folder:
        first = create_ledger(folder, FIRST)
        with pytest.raises(SweepLocked):
            create_ledger(folder, FIRST)
        first.append("publish", uri=None, ok=True, message="a")
        first.close()
        assert first.problem is None
    with machine("b") as other:
        fetch_sweep(other)
    assert len(read_records(other)) == 2


def test_the_second_of_two_that_wait_for_a_dead_owner_is_told_who_took_over(machine, tmp_path, monkeypatch):
    with machine("a") as folder:
        folder.mkdir(parents=True)
        (tmp_path / "elsewhere").mkdir()
        store = ObjectStore.from_local_copy(folder)
        dead = DriverLock(store, tmp_path / "elsewhere")
        dead.acquire()
        monkeypatch.setattr(driver_lock, "HEARTBEAT_TIMEOUT", 0.5)
        taken = threading.Timer(0.2, lambda: store.create("drivers/000002.json", b"{}"))
        taken.start()
        with pytest.raises(SweepLocked, match="another driver is running"):
            DriverLock(ObjectStore.from_local_copy(folder), folder).acquire()
        taken.join()
