"""Imported by every Python that has this folder in PYTHONPATH: leaves figures blank and lets packs wait.

Nothing waits for the disk. FIGURES=drawn draws the figures. While the file HOLD exists, every pack waits when an
evaluation of its has been recorded, except the packs that the file names; if it says `until N`, once the ledger has
N evaluations. A test can signal or kill a sweep that is sure to be in its middle.
With PRETENDED_GPUS packs that need a GPU train on the CPU: in that file is a line for each, its pack_id, what Ray put
into CUDA_VISIBLE_DEVICES and its node. With ROOM such a GPU has room for so many members.
With RUNS_OUT="2 20" packs of more than 2 members run out of memory once their evaluation at step 20 is recorded.
"""

import contextlib
import dataclasses
import importlib.util
import os
import sys
import time
from pathlib import Path


def blank(path, draw, *facts):
    """In the place of `orchestrator.figures.drawing.save_figure`: a picture of one pixel."""
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("L", (1, 1)).save(path, format="png")
    return path


def leave_blank(drawing):
    drawing.save_figure = blank


def hold(train_pack):
    """Let the packs of the module `orchestrator.running.pack.train_pack` wait while the file HOLD exists."""
    file, train = Path(os.environ["HOLD"]), train_pack.train_pack

    def is_held(pack_id, ledger):
        try:
            text = file.read_text()
        except FileNotFoundError:
            return False
        if text.startswith("until "):
            return ledger.read_bytes().count(b'"kind":"evaluation"') >= int(text.removeprefix("until "))
        return pack_id not in text

    def train_and_wait(work, reporter):
        ledger = Path(work.folder, "events.jsonl")

        class Waiting:
            report_environment, progress, notice = reporter.report_environment, reporter.progress, reporter.notice

            def report(self, evaluation):
                before = ledger.stat().st_size
                reporter.report(evaluation)  # returns when the driver has recorded it
                while ledger.stat().st_size > before and is_held(work.pack_id, ledger):  # or had it recorded before
                    time.sleep(0.01)

        train(work, Waiting())

    train_pack.train_pack = train_and_wait


def pretend_gpus(train_pack):
    """Let the packs of the module `orchestrator.running.pack.train_pack` train as on GPUs that are not there."""
    train, room = train_pack.train_pack, int(os.environ.get("ROOM", "1000"))

    def train_on_cpu(work, reporter):
        if not work.gpus:
            train(work, reporter)
            return
        import ray
        import torch

        from orchestrator.engine.environment import read_environment

        devices = f"{os.environ.get('CUDA_VISIBLE_DEVICES')} {ray.get_runtime_context().get_node_id()}"
        with Path(os.environ["PRETENDED_GPUS"]).open("a") as file:
            file.write(f"{work.pack_id} {devices}\n")
        if len(work.member_ids) > room:
            reporter.report_environment({**read_environment(work.modules, gpus=0), "device": "a GPU that is not there"})
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB")
        train(dataclasses.replace(work, gpus=0), reporter)

    train_pack.train_pack = train_on_cpu


def run_out(train_pack):
    """Let large packs of the module `orchestrator.running.pack.train_pack` run out of memory in their course."""
    train, (room, last) = train_pack.train_pack, map(int, os.environ["RUNS_OUT"].split())

    def train_and_run_out(work, reporter):
        class Limited:
            report_environment, progress, notice = reporter.report_environment, reporter.progress, reporter.notice

            def report(self, evaluation):
                reporter.report(evaluation)
                if evaluation.step >= last and len(work.member_ids) > room:
                    raise MemoryError("no room")

        train(work, Limited())

    train_pack.train_pack = train_and_run_out


def connect_without_sync(sqlite):
    """Let no SQLite store that is opened through the module `sqlite3.dbapi2`, as MLflow's are, wait for the disk."""
    connect = sqlite.connect

    def connect_and_turn_off(*given, **options):
        connection = connect(*given, **options)
        with contextlib.suppress(sqlite.Error):  # it may be no database
            connection.execute("PRAGMA synchronous=OFF")
        return connection

    sqlite.connect = connect_and_turn_off


class Finder:
    """Changes a module when it is imported, by each of these functions."""

    def __init__(self, name, *changes):
        self._name, self._changes = name, changes

    def find_spec(self, name, path=None, target=None):
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        execute = spec.loader.exec_module

        def execute_and_change(module):
            execute(module)
            for change in self._changes:
                change(module)

        spec.loader.exec_module = execute_and_change
        return spec


def wait_for_no_disk():
    os.fsync = lambda descriptor: None
    if "sqlite3.dbapi2" in sys.modules:
        connect_without_sync(sys.modules["sqlite3.dbapi2"])
    else:
        sys.meta_path.insert(0, Finder("sqlite3.dbapi2", connect_without_sync))


def begin():
    wait_for_no_disk()
    if os.environ.get("FIGURES") != "drawn":
        sys.meta_path.insert(0, Finder("orchestrator.figures.drawing", leave_blank))
    known = {"HOLD": hold, "PRETENDED_GPUS": pretend_gpus, "RUNS_OUT": run_out}
    if changes := [change for name, change in known.items() if name in os.environ]:
        sys.meta_path.insert(0, Finder("orchestrator.running.pack.train_pack", *changes))


if __name__ == "sitecustomize":
    begin()
