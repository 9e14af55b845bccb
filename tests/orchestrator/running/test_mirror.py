"""Sweeps at an address, here a folder (file://): what is copied, what is fetched, and workers that share no folder."""

import os
import shutil
import signal
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from orchestrator.addresses import find_address, find_local_copy, is_address
from orchestrator.errors import DivergedLedger, StorageRefused, SweepLocked, TakenLedger
from orchestrator.mirror import driver_lock, mirrored_ledger
from orchestrator.mirror.driver_lock import DriverLock
from orchestrator.mirror.fetch import fetch_sweep, find_sweep
from orchestrator.mirror.mirrored_ledger import create_ledger, open_ledger
from orchestrator.mirror.worker_files import move_folders
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.records import decode_record, read_records
from orchestrator.record.state.state import SweepState
from orchestrator.running.schedulers import inline
from orchestrator.storage import ObjectStore
from orchestrator.upkeep.deletion import delete_sweep, plan_deletion
from orchestrator.upkeep.listing import list_sweeps
from search_spaces import dump_yaml
from tests.orchestrator.claims.conftest import CLAIM, write_claims
from tests.orchestrator.conftest import TRAINED
from tests.orchestrator.running.ledgers import curves, sets, wait_for
from trainers.files.checkpoint import Checkpoints

FINISHED = Path(__file__).resolve().parents[2] / "sweeps" / "1.0.0" / "finished"
FIRST = {"name": "s", "study": "tests", "spec": {}, "spec_hash": "f" * 16, "provenance": {}}


class Machine:
    """A cache folder of its own; `with` makes this process a machine that has it."""

    def __init__(self, cache: Path, storage: Path) -> None:
        self._cache, self.bucket = cache, storage / "s"
        self._patch = pytest.MonkeyPatch()

    def __enter__(self) -> Path:
        self._patch.setenv("XDG_CACHE_HOME", str(self._cache))
        return find_local_copy(f"file://{self.bucket}")

    def __exit__(self, *_: object) -> None:
        self._patch.undo()


@pytest.fixture
def machine(tmp_path, monkeypatch):
    monkeypatch.setattr(mirrored_ledger, "COPY_SECONDS", 0.01)
    monkeypatch.setattr(driver_lock, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(driver_lock, "HEARTBEAT_SECONDS", 0.05)
    return lambda name: Machine(tmp_path / name, tmp_path / "bucket")


def copied_bytes(bucket: Path) -> int:
    sizes = [0]
    for path in bucket.glob("ledger/*"):
        with suppress(FileNotFoundError):  # replaced by a longer copy
            sizes.append(path.stat().st_size)
    return max(sizes)


@pytest.mark.parametrize(
    ("address", "copy"),
    [
        ("s3://bucket/a/b", "s3/bucket/a/b"),
        ("s3://bucket/a//b/", "s3/bucket/a/b"),
        ("s3:/bucket/a/b", "s3/bucket/a/b"),  # as pathlib writes it
        ("gs://bucket", "gs/bucket"),
        ("file:///srv/a", "file/srv/a"),
        ("memory://a/../b", "memory/a/b"),
    ],
)
def test_an_address_and_its_local_copy_name_each_other(monkeypatch, tmp_path, address, copy):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = tmp_path / "lengthwise/storage" / copy
    assert is_address(address) and find_local_copy(address) == folder
    assert find_local_copy(find_address(folder) or "") == folder
    assert find_address(folder / "x") == f"{find_address(folder)}/x"


def test_other_folders_have_no_address(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for folder in ("sweeps", "/srv/sweeps", str(tmp_path), "a:b/c"):
        assert not is_address(folder) and find_local_copy(folder) == Path(folder) and find_address(Path(folder)) is None
    assert type(create_ledger(tmp_path / "s", FIRST)) is Ledger


def test_records_are_copied_while_a_sweep_runs_and_continued_on_another_machine(machine):
    bucket = machine("a").bucket
    with machine("a") as folder:
        ledger = create_ledger(folder, FIRST)
        for number in range(3):
            ledger.append("publish", uri=None, ok=True, message=str(number))
            size = ledger.path.stat().st_size
            wait_for(lambda size=size: copied_bytes(bucket) == size)
        with ledger.path.open("ab") as file:
            file.write(b"written and not acknowledged\n")
        time.sleep(0.1)
        assert copied_bytes(bucket) == size and len(list(bucket.glob("ledger/*"))) <= 2
        os.truncate(ledger.path, size)
        ledger.close()
    with machine("b") as other:
        with open_ledger(other) as ledger:
            ledger.append("publish", uri=None, ok=True, message="b")
        assert len(read_records(other)) == 5
    with machine("a") as folder:
        fetch_sweep(folder)
        assert (folder / "events.jsonl").read_bytes() == (other / "events.jsonl").read_bytes()


def test_a_copy_that_was_cut_short_does_not_count(machine):
    with machine("a") as folder:
        create_ledger(folder, FIRST).close()
        (whole,) = (machine("a").bucket / "ledger").iterdir()
        torn = whole.with_name(whole.name.replace("-000000", "-000009"))
        torn.write_bytes(whole.read_bytes()[:-9])
    with machine("b") as other:
        fetch_sweep(other)
        assert (other / "events.jsonl").read_bytes() == whole.read_bytes()


def test_curves_that_were_cut_short_at_the_address_are_copied_again(machine):
    with machine("a") as folder:
        create_ledger(folder, FIRST).close()
        (folder / "curves").mkdir()
        names = {name: folder / "curves" / f"{name}.parquet" for name in ("whole", "torn", "new")}
        there = {name: machine("a").bucket / "curves" / path.name for name, path in names.items()}
        there["whole"].parent.mkdir()
        for path in names.values():
            path.write_bytes(b"0123456789")
        there["whole"].write_bytes(b"9876543210")  # of the same size: taken for the same, since names have checksums
        there["torn"].write_bytes(b"0123")
        open_ledger(folder).close()
        copied = {name: path.read_bytes() for name, path in there.items()}
    assert copied == {"whole": b"9876543210", "torn": b"0123456789", "new": b"0123456789"}


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


def test_ledgers_that_were_continued_apart_are_refused_as_they_are(machine):
    with machine("a") as folder:
        create_ledger(folder, FIRST).close()
        with Ledger.open(folder) as ledger:  # as if killed before anything was copied
            ledger.append("publish", uri=None, ok=True, message="a")
    with machine("b") as other, open_ledger(other) as ledger:
        ledger.append("publish", uri=None, ok=True, message="b")
    before = (folder / "events.jsonl").read_bytes()
    with machine("a"), pytest.raises(DivergedLedger, match="have different records"):
        open_ledger(folder)
    assert (folder / "events.jsonl").read_bytes() == before
    assert {path.read_bytes() for path in (machine("a").bucket / "drivers").iterdir()} == {b"ended"}


def test_a_copied_ledger_with_damaged_bytes_is_refused_as_it_is(machine):
    with machine("a") as folder:
        create_ledger(folder, FIRST).close()
        path = folder / "events.jsonl"
        damaged = path.read_bytes()[:-10] + b"\xff" * 9 + b"\n"
        path.write_bytes(damaged)
        with pytest.raises(DivergedLedger):
            fetch_sweep(folder)
    assert path.read_bytes() == damaged


def test_a_torn_last_line_is_no_continuation(machine):
    with machine("a") as folder:
        create_ledger(folder, FIRST).close()
    with machine("b") as other, open_ledger(other) as ledger:
        ledger.append("publish", uri=None, ok=True, message="b")
    with machine("a"):
        with (folder / "events.jsonl").open("ab") as file:
            file.write(b'{"seq":1,"ti')
        open_ledger(folder).close()
    assert (folder / "events.jsonl").read_bytes() == (other / "events.jsonl").read_bytes()


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


def test_an_unknown_kind_of_address_is_refused(machine):
    with machine("a"), pytest.raises(StorageRefused, match="nosuch://a/b cannot be used: "):
        fetch_sweep(find_local_copy("nosuch://a/b"))


def test_a_sweep_is_deleted_at_its_address_and_here(machine, monkeypatch):
    with machine("a") as folder:
        bucket, deleted = machine("a").bucket, []
        with create_ledger(folder, FIRST) as ledger:
            for number in range(3):
                ledger.append("publish", uri=None, ok=True, message=str(number))
                wait_for(lambda: copied_bytes(bucket) == ledger.path.stat().st_size)
        (bucket / "weights").mkdir()
        (bucket / "weights/w.safetensors").write_text("w")
        (bucket / "notes.txt").write_text("mine")
        planned = plan_deletion(folder)
        assert planned.sentence.startswith(f"file://{bucket}: ") and planned.sentence.endswith("these stay: notes.txt")
    with machine("b") as other:
        elsewhere = open_ledger(other)
    with machine("a"):
        before = sorted(bucket.rglob("*"))
        with pytest.raises(SweepLocked, match="another driver is running"):
            delete_sweep(planned, lambda: pytest.fail("its MLflow runs are deleted while it runs"))
        assert {*bucket.rglob("*")} >= {path for path in before if path.parent.name != "drivers"} and folder.exists()
    with machine("b"):
        elsewhere.close()
    with machine("a"):
        (bucket / "curves").mkdir()
        (bucket / "curves/late.parquet").write_text("of another machine, after the user was asked")
        remove = ObjectStore.delete

        def interrupted(store, names):
            for name in names:
                if name.startswith("ledger/"):
                    raise KeyboardInterrupt
                remove(store, [name])
                deleted.append(name)

        monkeypatch.setattr(ObjectStore, "delete", interrupted)
        with pytest.raises(KeyboardInterrupt):
            delete_sweep(planned)
        assert list((bucket / "ledger").iterdir())
        monkeypatch.setattr(ObjectStore, "delete", remove)
        delete_sweep(plan_deletion(find_sweep(folder)))
        assert [path.name for path in bucket.rglob("*") if path.is_file()] == ["notes.txt"] and not folder.exists()


def test_an_address_to_which_nothing_was_written_yet_is_an_empty_storage(tmp_path, lengthwise, tiny):
    lengthwise.environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    where = ("--storage", f"file://{tmp_path}/new")
    assert lengthwise.succeeds("list", "sweeps", *where).stdout == f"no sweeps in file://{tmp_path}/new\n"
    claims = write_claims(tmp_path / "claims.yaml", [CLAIM])
    assert "not tested: the sweep was not run" in lengthwise.succeeds("claims", claims, *where).stdout
    lengthwise.refuses("ui", *where, said=f"file://{tmp_path}/new does not exist")
    assert f"tiny would be stored in file://{tmp_path}/new/tiny\n" in lengthwise.succeeds("plan", tiny, *where).stdout
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    "named", ["status {0}/tiny", "status tiny --storage {0}", "run {file} --storage {0}", "list sweeps"]
)
def test_an_address_with_a_password_is_refused_and_named_without_it(tmp_path, lengthwise, tiny, monkeypatch, named):
    address = "sftp://ada:s3cretpass@nas.example.org/sweeps"
    lengthwise.environment["XDG_CACHE_HOME"] = str(tmp_path / "cache")
    if "{0}" not in named:
        monkeypatch.setitem(lengthwise.environment, "LENGTHWISE_STORAGE", address)
    words = named.format(address, file=tiny).split()
    refused = lengthwise.refuses(*words, said="sftp://ada:***@nas.example.org/sweeps")
    assert "remove it and set FSSPEC_SFTP_PASSWORD" in refused.stderr
    assert "s3cretpass" not in refused.stdout + refused.stderr and not (tmp_path / "cache").exists()


def test_an_address_may_have_characters_of_patterns(machine, tmp_path, lengthwise):
    address = f"file://{tmp_path}/bucket [1] of*?/s"
    with machine("a"):
        open_ledger(shutil.copytree(FINISHED, find_local_copy(address))).close()
    lengthwise.environment["XDG_CACHE_HOME"] = str(tmp_path / "b")
    assert "complete: 6 of 6 configurations succeeded" in lengthwise.succeeds("status", address).stdout


def test_configurations_of_sweeps_at_addresses_are_compared(machine, tmp_path, lengthwise):
    lengthwise.environment["XDG_CACHE_HOME"] = str(tmp_path / "a")
    one, two = (f"file://{tmp_path}/{name}" for name in ("one", "two"))
    with machine("a"):
        for address in (one, two):
            open_ledger(shutil.copytree(FINISHED, find_local_copy(address))).close()
    done = lengthwise.succeeds("compare", one, "0", f"{two}/1")
    assert "First: #0 of finished" in done.stdout and "Second: #1 of finished" in done.stdout
    assert "Second: #1 of finished" in lengthwise.succeeds("compare", one, f"{one}/0", f"{two}/1").stdout
    for others in ([f"{two}/x"], ["0", f"{two}s/1"], [two, f"{two}s"]):
        missing = next(name for name in others if "//" in name and name != two).removesuffix("/1")
        lengthwise.refuses("compare", one, *others, said=f"{missing} is not a sweep: no ledger in it")


def test_workers_that_share_no_folder_with_the_driver(machine, tmp_path, monkeypatch, lengthwise):
    """Every attempt of a pack is on a machine of its own; each first one dies after a checkpoint."""
    train, attempts, began = inline.train_pack, [], []

    def elsewhere(work, reporter):
        attempts.append(work.pack_id)
        with machine(f"worker{len(attempts)}"):
            mine = reporter._work = move_folders(work)
            folder = Path(mine.folder)
            assert not folder.exists()
            first = attempts.count(work.pack_id) == 1

            class Dying:
                def __getattr__(self, name):
                    return getattr(reporter, name)

                def report(self, evaluation):
                    began.append((first, evaluation.step, [path.name for path in folder.glob("checkpoints/*/*.ckpt")]))
                    if first and evaluation.step == 8:
                        there = storage / "trained/checkpoints" / attempts[-1]
                        wait_for((there / "step-000000000006.ckpt").exists)
                        raise OSError("the machine is gone")
                    return reporter.report(evaluation)

            train(mine, Dying())
            shutil.rmtree(folder)

    storage = tmp_path / "bucket"
    settings = ["training.steps=12", "evaluation.every=4", "resources.checkpoint_steps=3", "resources.pack=2"]
    file = tmp_path / "trained.yaml"
    file.write_text(dump_yaml(TRAINED))
    words = sets(*settings)
    lengthwise.succeeds("run", file, "--storage", tmp_path / "alone", *words)
    monkeypatch.setattr(inline, "train_pack", elsewhere)
    write, early = ObjectStore.write, []

    def write_late(store, name, content):
        fields = [decode_record(line).fields for line in content.splitlines()] if name.startswith("ledger/") else []
        named = [one["file"] for one in fields if "file" in one]
        named += [f"weights/{file['name']}" for one in fields for file in one.get("weights", ())]
        early.extend(name for name in named if not (storage / "trained" / name).exists())
        write(store, name, content)

    monkeypatch.setattr(ObjectStore, "write", write_late)
    lengthwise.environment["XDG_CACHE_HOME"] = str(tmp_path / "driver")
    lengthwise.succeeds("run", file, "--storage", f"file://{storage}", *words)
    assert len(attempts) == 6 and len(set(attempts)) == 3
    folder = tmp_path / "driver/lengthwise/storage/file" / str(storage)[1:] / "trained"
    assert not early  # what a record names is there before it
    assert curves(folder).equals(curves(tmp_path / "alone/trained"))
    resumed = [found for first, step, found in began if not first and step == 4]  # reported again, from a checkpoint
    assert len(resumed) == 3 and all("step-000000000006.ckpt" in found for found in resumed)
    assert not list(folder.glob("checkpoints/*/*.ckpt"))
    exported = lengthwise("export", f"file://{storage}/trained", "--weights", tmp_path / "weights")
    assert exported.returncode == 0 and len(list((tmp_path / "weights").iterdir())) == 6, exported.stderr


KILLED = """
import os, signal, time
from orchestrator.mirror.worker_files import MirroredCheckpoints
from orchestrator.storage import ObjectStore

save = MirroredCheckpoints.save

def save_and_die(self, snapshot, members):
    path = save(self, snapshot, members)
    if snapshot.step == 6:
        self.finish()
        there = ObjectStore.from_local_copy(self.folder.parents[1])
        while b'"kind":"pack"' not in b"".join(there.read(list(there.list_sizes("ledger"))[-1:]).values()):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGKILL)
    return path

MirroredCheckpoints.save = save_and_die
from orchestrator.__main__ import command
command()
"""


@pytest.mark.slow
def test_a_pack_is_resumed_on_another_machine_from_its_checkpoint(tmp_path, monkeypatch, lengthwise):
    """Also before its first evaluation, when only the checkpoint says that it was begun; others are repacked."""
    storage, steps = tmp_path / "bucket", list[int]()
    settings = ["training.steps=12", "evaluation.every=12", "resources.checkpoint_steps=3", "resources.pack=2"]
    file = tmp_path / "trained.yaml"
    file.write_text(dump_yaml(TRAINED))
    words = sets(*settings)
    assert lengthwise("run", file, "--storage", tmp_path / "alone", *words).returncode == 0
    run = ("run", file, "--storage", f"file://{storage}", *words)
    killed = lengthwise.process(*run, program=KILLED, XDG_CACHE_HOME=str(tmp_path / "a"))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    (begun,) = (storage / "trained/checkpoints").iterdir()
    assert [path.name for path in begun.iterdir()], "a checkpoint is at the address"
    load = Checkpoints.load

    def loaded(self, members):
        found = load(self, members)
        steps.append(found[0].step if found[0] else 0)
        return found

    monkeypatch.setattr(driver_lock, "HEARTBEAT_TIMEOUT", 0.5)
    monkeypatch.setattr(Checkpoints, "load", loaded)
    lengthwise.environment["XDG_CACHE_HOME"] = str(tmp_path / "b")
    lengthwise.succeeds("resume", f"file://{storage}/trained", "--set", "resources.pack=1")
    assert sorted(steps, reverse=True) == [6, 0, 0, 0, 0]
    there = tmp_path / "b/lengthwise/storage/file" / str(storage)[1:] / "trained"
    assert curves(there).equals(curves(tmp_path / "alone/trained"))
    assert begun.name in SweepState.load(there).packs


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


def test_a_sweep_that_cannot_be_fetched_hides_no_other_one(machine):
    with machine("a") as folder:
        create_ledger(folder, FIRST).close()
        create_ledger(folder.parent / "other", FIRST | {"name": "other"}).close()
        with Ledger.open(folder) as ledger:  # continued apart
            ledger.append("publish", uri=None, ok=True, message="a")
    with machine("b") as elsewhere, open_ledger(elsewhere) as ledger:
        ledger.append("publish", uri=None, ok=True, message="b")
    with machine("a"):
        lines = list_sweeps(folder.parent)
        assert any(line.startswith("other ") for line in lines)
        assert any(line.startswith(f"{folder.name}: cannot fetch") for line in lines)
