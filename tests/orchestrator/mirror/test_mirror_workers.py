"""Workers of a sweep at an address that share no folder with its driver."""

import shutil
import signal
from pathlib import Path

import pytest

from orchestrator.mirror import driver_lock
from orchestrator.mirror.worker_files import move_folders
from orchestrator.record.ledger.records import decode_record
from orchestrator.record.state.state import SweepState
from orchestrator.running.schedulers import inline
from orchestrator.storage import ObjectStore
from search_spaces import dump_yaml
from tests.orchestrator.conftest import TRAINED
from tests.orchestrator.running.ledgers import curves, keyed, sets, wait_for
from trainers.files.checkpoint import Checkpoints


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
        records = [decode_record(line).fields for line in content.splitlines()] if name.startswith("ledger/") else []
        named = [fields["file"] for fields in records if "file" in fields]
        named += [f"weights/{file['name']}" for fields in records for file in fields.get("weights", ())]
        early.extend(name for name in named if not (storage / "trained" / name).exists())
        write(store, name, content)

    monkeypatch.setattr(ObjectStore, "write", write_late)
    lengthwise.environment["XDG_CACHE_HOME"] = str(tmp_path / "driver")
    lengthwise.succeeds("run", file, "--storage", f"file://{storage}", *words)
    assert len(attempts) == 6 and len(set(attempts)) == 3
    folder = tmp_path / "driver/lengthwise/storage/file" / str(storage)[1:] / "trained"
    assert not early  # what a record names is there before it
    assert curves(folder).equals(curves(tmp_path / "alone/trained"))
    resumed = [names for first, step, names in began if not first and step == 4]  # reported again, from a checkpoint
    assert len(resumed) == 3 and all("step-000000000006.ckpt" in names for names in resumed)
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
def test_a_pack_is_resumed_on_another_machine_from_its_checkpoint(tmp_path, monkeypatch, lengthwise, no_reports):
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
        checkpoint = load(self, members)
        steps.append(checkpoint[0].step if checkpoint[0] else 0)
        return checkpoint

    monkeypatch.setattr(driver_lock, "HEARTBEAT_TIMEOUT", 0.5)
    monkeypatch.setattr(Checkpoints, "load", loaded)
    lengthwise.environment["XDG_CACHE_HOME"] = str(tmp_path / "b")
    lengthwise.succeeds("resume", f"file://{storage}/trained", "--set", "resources.pack=1")
    assert sorted(steps, reverse=True) == [6, 0, 0, 0, 0]
    there = tmp_path / "b/lengthwise/storage/file" / str(storage)[1:] / "trained"
    assert keyed(there).equals(keyed(tmp_path / "alone/trained"))
    assert begun.name in SweepState.load(there).packs
