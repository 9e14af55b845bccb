"""Train a pack of a sweep with an address on a worker, whose folder may be on another machine than the driver's.

It works in the local copy of its own machine, gets code and checkpoints from the address before it reads them, and
copies checkpoints and weights there after it has written them.
"""

import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from orchestrator.addresses import local_copy
from orchestrator.errors import StorageError, StorageRefused
from orchestrator.record.ledger.folders import STOP_FILE, WEIGHTS_FOLDER
from orchestrator.storage import ObjectStore, fetch_missing
from trainers.evaluation.results import Evaluation
from trainers.files.checkpoint import Checkpoints, Snapshot

ANSWER_SECONDS = 0.5


def move_folders(work: dict[str, Any]) -> dict[str, Any]:
    """Return decoded work of a sweep that has an address, with the folders that it has on this machine."""
    of_driver, of_worker = Path(work["folder"]).parent, local_copy(work["address"]).parent

    def move(path: str) -> str:
        return str(of_worker / Path(path).relative_to(of_driver)) if Path(path).is_relative_to(of_driver) else path

    return work | {
        "folder": move(work["folder"]),
        "weights": work["weights"] and move(work["weights"]),
        "code": [{**fields, "root": move(fields["root"])} for fields in work["code"]],
        "earlier": [[(move(folder), *member) for folder, *member in states] for states in work["earlier"]],
    }


def fetch_files(work: Mapping[str, Any]) -> None:
    """Get the code, the checkpoints and the earlier states that a pack needs; raises StorageError, StorageRefused."""
    store, folder = ObjectStore(work["address"]), Path(work["folder"])
    for fields in work["code"]:
        files = [Path(fields["root"]) / name for name in fields["files"]]
        missing = [str(path.relative_to(folder)) for path in files if path.is_relative_to(folder) and not path.exists()]
        store.fetch(folder, missing)
    earlier = [Path(path) for states in work["earlier"] for path, *_ in states]
    for needed in dict.fromkeys([folder / "checkpoints" / work["pack_id"], *earlier]):
        fetch_missing(needed)


class StopPoll:
    """Asks in a thread whether the driver has stopped all packs: training does not wait for a late answer."""

    def __init__(self, address: str) -> None:
        self._store = ObjectStore(address).with_retry_seconds(0.0)
        self._thread, self._stopped = threading.Thread(), False

    def is_stopped(self) -> bool:
        """Return whether the stop file was there at the last answer, for which this waits ANSWER_SECONDS at most."""
        if not self._thread.is_alive():
            self._thread = threading.Thread(target=self._ask, daemon=True)
            self._thread.start()
        self._thread.join(ANSWER_SECONDS)
        return self._stopped

    def _ask(self) -> None:
        with suppress(StorageError, StorageRefused):
            self._stopped = self._store.has(STOP_FILE)


def send_weights(work: Mapping[str, Any], evaluation: Evaluation) -> None:
    """Copy the final weights before the record that names them is written; raises StorageError, StorageRefused."""
    names = [f"{WEIGHTS_FOLDER}/{file.name}" for file in evaluation.weights if file]
    ObjectStore(work["address"]).send(Path(work["folder"]), names)


@dataclass(kw_only=True)
class MirroredCheckpoints(Checkpoints):
    """Checkpoints that a thread copies to the address of their folder: always the newest, without stopping training.

    A copy that is lost costs time and nothing else: the pack is trained again from an older one, to the same bits.
    """

    _thread: threading.Thread | None = field(default=None, init=False)
    _newest: Path | None = field(default=None, init=False)

    def save(self, snapshot: Snapshot, members: Sequence[tuple[str, int]]) -> Path:
        """Write one checkpoint as `Checkpoints` does, and have it copied."""
        self._newest = super().save(snapshot, members)
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._keep_copying, daemon=True)
            self._thread.start()
        return self._newest

    def finish(self) -> str | None:
        """Copy the newest checkpoint; return the problem in words if that failed."""
        if self._thread is not None:
            self._thread.join()
        problem = self._copy(self._newest) if self._newest and self._newest.exists() else None
        return f"its newest checkpoint was not copied: {problem}" if problem else None

    def _keep_copying(self) -> None:
        copied = None
        while self._newest is not None and self._newest != copied:
            copied = self._newest
            self._copy(copied)

    def _copy(self, path: Path) -> Exception | None:
        """Copy a checkpoint and delete older copies; return the problem if that failed."""
        try:
            store = ObjectStore.for_copy(self.folder)
            store.send(self.folder, [path.name])
            store.delete(name for name in store.sizes() if name < path.name and not (self.folder / name).exists())
        except (StorageError, StorageRefused) as error:
            return error
        return None
