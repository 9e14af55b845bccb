"""Sweeps at an address, here a folder (file://): what is copied and what is fetched."""

import os
import shutil
from pathlib import Path

import pytest

from orchestrator.addresses import find_address, find_local_copy, is_address
from orchestrator.errors import DivergedLedger, StorageRefused, SweepLocked
from orchestrator.mirror.fetch import fetch_sweep, find_sweep
from orchestrator.mirror.mirrored_ledger import create_ledger, open_ledger
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.records import read_records
from orchestrator.storage import ObjectStore
from orchestrator.upkeep.deletion import delete_sweep, plan_deletion
from orchestrator.upkeep.listing import list_sweeps
from tests.orchestrator.claims.conftest import CLAIM, write_claims
from tests.orchestrator.mirror.machines import FIRST, copied_bytes
from tests.orchestrator.running.ledgers import wait_for

FINISHED = Path(__file__).resolve().parents[2] / "sweeps" / "1.0.0" / "finished"


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
        assert ledger.try_to_copy()
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
    lengthwise.refuses("ui", *where, message=f"file://{tmp_path}/new does not exist")
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
    refused = lengthwise.refuses(*words, message="sftp://ada:***@nas.example.org/sweeps")
    assert "remove it and set FSSPEC_SFTP_PASSWORD" in refused.stderr
    assert "s3cretpass" not in refused.stdout + refused.stderr and not (tmp_path / "cache").exists()


def test_an_address_may_have_characters_of_patterns(machine, tmp_path, lengthwise):
    address = f"file://{tmp_path}/bucket [1] of*?/s"
    with machine("a"):
        open_ledger(shutil.copytree(FINISHED, find_local_copy(address))).close()
    lengthwise.environment["XDG_CACHE_HOME"] = str(tmp_path / "b")
    assert "finished: 6 of 6 configurations" in lengthwise.succeeds("status", address).stdout


def test_configurations_of_sweeps_at_addresses_are_compared(machine, tmp_path, lengthwise):
    lengthwise.environment["XDG_CACHE_HOME"] = str(tmp_path / "a")
    first, second = (f"file://{tmp_path}/{name}" for name in ("one", "two"))
    with machine("a"):
        for address in (first, second):
            open_ledger(shutil.copytree(FINISHED, find_local_copy(address))).close()
    done = lengthwise.succeeds("compare", first, "0", f"{second}/1")
    assert "First: #0 of finished" in done.stdout and "Second: #1 of finished" in done.stdout
    assert "Second: #1 of finished" in lengthwise.succeeds("compare", first, f"{first}/0", f"{second}/1").stdout
    for others in ([f"{second}/x"], ["0", f"{second}s/1"], [second, f"{second}s"]):
        missing = next(name for name in others if "//" in name and name != second).removesuffix("/1")
        lengthwise.refuses("compare", first, *others, message=f"{missing} is not a sweep: no ledger in it")


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
