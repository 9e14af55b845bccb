"""Exchange files of a pack with the address of its sweep, on a worker that may be on another machine.

The worker trains in a local copy on its machine. It fetches code and checkpoints from the address before it reads them,
and copies checkpoints and weights there after it has written them.
"""

import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from orchestrator.addresses import find_local_copy
from orchestrator.errors import StorageError, StorageRefused
from orchestrator.interface.work import PackWork, get_checkpoint_folder
from orchestrator.record.ledger.folders import STOP_FILE, WEIGHTS_FOLDER
from orchestrator.storage import ObjectStore, fetch_missing
from trainers.evaluation.results import Evaluation
from trainers.files.checkpoint import Checkpoints, Snapshot

MAX_WAIT_SECONDS = 0.5


def move_folders(work: PackWork) -> PackWork:
    """Return decoded work of a sweep at an address, with the folders on this machine."""
    # Another machine may keep its local copies in another folder; all other paths are the same on all machines.
    driver_folder = Path(work.folder).parent
    worker_folder = find_local_copy(work.address).parent

    def move(path: str) -> str:
        return (
            str(worker_folder / Path(path).relative_to(driver_folder))
            if Path(path).is_relative_to(driver_folder)
            else path
        )

    return replace(
        work,
        folder=move(work.folder),
        weights_folder=work.weights_folder and move(work.weights_folder),
        modules=[{**fields, "root": move(fields["root"])} for fields in work.modules],
        checkpoint_sources=[
            [(move(folder), *name) for folder, *name in members] for members in work.checkpoint_sources
        ],
    )


def fetch_files(work: PackWork) -> None:
    """Fetch the code, checkpoints and earlier checkpoints of a pack. Raises StorageError, StorageRefused."""
    store = ObjectStore(work.address)
    folder = Path(work.folder)
    for fields in work.modules:
        files = [Path(fields["root"]) / name for name in fields["files"]]
        missing_files = [
            str(path.relative_to(folder)) for path in files if path.is_relative_to(folder) and not path.exists()
        ]
        store.fetch(folder, missing_files)
    earlier_folders = [Path(folder) for members in work.checkpoint_sources for folder, *_ in members]
    for checkpoint_folder in dict.fromkeys([get_checkpoint_folder(folder, work.pack_id), *earlier_folders]):
        fetch_missing(checkpoint_folder)


class StopPoll:
    """Polls in a thread whether the driver has stopped all packs, so that slow storage does not delay training."""

    def __init__(self, address: str) -> None:
        self._store = ObjectStore(address).with_retry_seconds(0.0)
        self._thread = threading.Thread()
        self._stopped = False

    def is_stopped(self) -> bool:
        """Return whether the last answer had the stop file; waits for an answer at most MAX_WAIT_SECONDS."""
        if not self._thread.is_alive():
            self._thread = threading.Thread(target=self._check_stop_file, daemon=True)
            self._thread.start()
        self._thread.join(MAX_WAIT_SECONDS)
        return self._stopped

    def _check_stop_file(self) -> None:
        """Ask the address for the stop file once; runs in a thread."""
        with suppress(StorageError, StorageRefused):
            self._stopped = self._store.exists(STOP_FILE)


def send_weights(work: PackWork, evaluation: Evaluation) -> None:
    """Copy final weights before they are recorded. Raises StorageError, StorageRefused."""
    names = [f"{WEIGHTS_FOLDER}/{file.name}" for file in evaluation.weights if file]
    ObjectStore(work.address).send(Path(work.folder), names)


@dataclass(kw_only=True)
class MirroredCheckpoints(Checkpoints):
    """Checkpoints; while training continues, a thread copies the newest one to the address of their folder.

    A lost copy only costs time: the pack is trained again from an older checkpoint, with the same results.
    """

    _thread: threading.Thread | None = field(default=None, init=False)
    _newest: Path | None = field(default=None, init=False)

    def save(self, snapshot: Snapshot, members: Sequence[tuple[str, int]]) -> Path:
        """Write a checkpoint as `Checkpoints` does, and start to copy it."""
        self._newest = super().save(snapshot, members)
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._keep_copying, daemon=True)
            self._thread.start()
        return self._newest

    def finish(self) -> str | None:
        """Copy the newest checkpoint; return a sentence if that fails."""
        if self._thread is not None:
            self._thread.join()
        problem = self._copy(self._newest) if self._newest and self._newest.exists() else None
        return f"newest checkpoint not copied: {problem}" if problem else None

    def _keep_copying(self) -> None:
        """Copy the newest checkpoint until no newer one was written meanwhile; runs in a thread."""
        copied = None
        while self._newest is not None and self._newest != copied:
            copied = self._newest
            self._copy(copied)

    def _copy(self, path: Path) -> Exception | None:
        """Copy a checkpoint and delete older copies; return the error if that fails."""
        try:
            store = ObjectStore.from_local_copy(self.folder)
            store.send(self.folder, [path.name])
            store.delete(name for name in store.list_sizes() if name < path.name and not (self.folder / name).exists())
        except (StorageError, StorageRefused) as error:
            return error
        return None
