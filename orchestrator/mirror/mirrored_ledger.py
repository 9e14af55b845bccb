"""The ledger of a sweep at an address: a thread copies records there within about a second.

An outage is logged once and does not stop training; the copy is completed later. `close` retries for about a minute.
"""

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from orchestrator.addresses import find_address
from orchestrator.errors import LengthwiseError, StorageError, StorageRefused, SweepLocked, TakenLedger
from orchestrator.interface.work import CHECKPOINTS_FOLDER
from orchestrator.mirror.driver_lock import DriverLock
from orchestrator.mirror.fetch import (
    LEDGERS,
    fetch_sweep,
    find_last_ledger,
    make_ledger_name,
    parse_ledger_size,
    read_newer_ledger,
)
from orchestrator.record.files.curves import CURVES_FOLDER
from orchestrator.record.ledger.folders import LEDGER_FILE, STOP_FILE
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.records import Record
from orchestrator.storage import ObjectStore
from orchestrator.text.wording import format_command

COPY_SECONDS = 1.0  # minimum pause between copies
FILES_PER_HEARTBEAT = 16  # that a copy sends at once
RETRY_SECONDS = 5.0  # time for which a copy retries a failed request; the last copy retries longer
_log = logging.getLogger(__name__)


def create_ledger(folder: Path, first_fields: Mapping[str, Any]) -> Ledger:
    """Begin a sweep as `Ledger.create` does, also at the address of its folder. Raises SweepLocked, too."""
    if find_address(folder) is None:
        return Ledger.create(folder, first_fields)
    store = ObjectStore.from_local_copy(folder)
    lock = DriverLock(store, folder)
    lock.acquire(locked=False)  # another driver on this machine may have the local lock
    try:
        return MirroredLedger.create(folder, first_fields).mirror_to(store, lock)
    except BaseException:
        lock.release()
        raise


def open_ledger(folder: Path) -> Ledger:
    """Open a sweep as `Ledger.open` does, after updating its local copy from its address, and append to both.

    Raises what `fetch_sweep` and `Ledger.open` raise.
    """
    if find_address(folder) is None:
        return Ledger.open(folder)
    fetch_sweep(folder)
    ledger = MirroredLedger.open(folder)
    store = ObjectStore.from_local_copy(folder)
    lock = DriverLock(store, folder)
    try:
        lock.acquire()

        # Between fetching and locking, another driver may have recorded more.
        if read_newer_ledger(store, folder):
            raise SweepLocked(f"{store.address}: another driver was running until now; try again")
        for name in store.list_sizes(CHECKPOINTS_FOLDER):  # packs with checkpoints were begun, and are not repacked
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
        return ledger.mirror_to(store, lock)
    except BaseException:
        lock.release()
        ledger.close()
        raise


def copy_at_start(ledger: Ledger) -> str | None:
    """Copy a sweep to its address before training begins; return a warning if that fails for seconds."""
    if not isinstance(ledger, MirroredLedger) or ledger.try_to_copy():
        return None
    return f"nothing was copied to {ledger.address} yet; until then only this machine can resume the sweep"


class MirroredLedger(Ledger):
    """A ledger with a thread that copies it, and the files that it names, to an address."""

    _driver_lock: DriverLock | None = None

    def mirror_to(self, store: ObjectStore, driver_lock: DriverLock) -> "MirroredLedger":
        """Start to copy to a store, and return the ledger."""
        self.address = store.address
        self._driver_lock = driver_lock
        self._store = store

        # Files that the address already has are not copied again.
        self._ledger_names = list(store.list_sizes(LEDGERS))
        self._copied_bytes = parse_ledger_size(find_last_ledger(store))
        sizes = {name: size for name, size in store.list_sizes(CURVES_FOLDER).items() if (self.folder / name).exists()}
        self._copied_curve_names = {name for name, size in sizes.items() if (self.folder / name).stat().st_size == size}
        self._sent_stats = dict[str, tuple[int, int]]()  # modification time and size of copied files by name
        self._is_stopped: bool | None = None  # None: unknown, because a killed driver may have left the object
        self._is_failing = False
        self._ending = threading.Event()
        self._copying = threading.Lock()

        driver_lock.write_number()
        self._thread = threading.Thread(target=self._keep_copying, daemon=True)
        self._thread.start()
        return self

    def append_all(self, kind: str, entries: Iterable[Mapping[str, Any]]) -> list[Record]:
        """Write records, which the thread copies. Raises TakenLedger, too, if another driver has taken over."""
        if self._driver_lock is not None:
            self._driver_lock.refuse_taken()
        return super().append_all(kind, entries)

    def close(self) -> None:
        """Copy missing records and files, then close the ledger; sets `problem` if the copy stays incomplete."""
        driver_lock, self._driver_lock = self._driver_lock, None
        if driver_lock is not None:
            self._ending.set()
            self._thread.join()
            try:
                driver_lock.beat()  # a driver that was suspended and replaced learns it here at the latest
                self._copy(driver_lock, self._store, everything=True)
            except (LengthwiseError, OSError) as error:
                self.problem = f"the copy at {self.address} is incomplete: {error}; all files are in {self.folder}"
                if not isinstance(error, TakenLedger):
                    self.problem += f"; to copy them: {format_command('resume', self.folder)}"
            driver_lock.release()
        super().close()

    def _keep_copying(self) -> None:
        """Copy until the ledger is closed, and pause at least four times as long as a copy took; runs in a thread."""
        pause = 0.0
        while not self._ending.wait(pause):
            began = time.monotonic()
            self.try_to_copy()
            pause = max(COPY_SECONDS, 4 * (time.monotonic() - began))

    def try_to_copy(self) -> bool:
        """Copy new files, and return whether the copy is complete; log the beginning of an outage."""
        with self._copying:
            if (driver_lock := self._driver_lock) is None:
                return True  # `close` copies the rest
            try:
                driver_lock.beat()
                self._copy(driver_lock, self._store.with_retry_seconds(RETRY_SECONDS))
                self._is_failing = False
            except TakenLedger:
                self._ending.set()
            except (StorageError, StorageRefused, OSError) as error:
                if not self._is_failing:
                    _log.warning(f"{error}; training continues, and missing files are copied later")
                self._is_failing = True
        return not self._is_failing

    def _copy(self, driver_lock: DriverLock, store: ObjectStore, *, everything: bool = False) -> None:
        """Copy changed files, with `everything` also the report, then the ledger up to the last acknowledged record."""
        size = self._size  # read first, so that the listed files include all files of its records
        is_stopped = (self.folder / STOP_FILE).exists()
        if is_stopped != self._is_stopped:  # packs on other machines poll for it
            if is_stopped:
                store.write(STOP_FILE, b"")
            else:
                store.delete([STOP_FILE])
            self._is_stopped = is_stopped

        # Files go before the ledger that names them. Curves never change; other files may.
        curves = {f"{CURVES_FOLDER}/{path.name}" for path in (self.folder / CURVES_FOLDER).glob("*.parquet")}
        stats = {str(path.relative_to(self.folder)): path.stat() for path in self._list_files(everything)}
        changed = {name: (stat.st_mtime_ns, stat.st_size) for name, stat in stats.items()}
        changed = {name: stat for name, stat in changed.items() if self._sent_stats.get(name) != stat}
        names = [*(curves - self._copied_curve_names), *changed]
        for start in range(0, len(names), FILES_PER_HEARTBEAT):
            store.send(self.folder, names[start : start + FILES_PER_HEARTBEAT])
            driver_lock.beat()  # else a driver that waits would take this one for dead
        self._copied_curve_names |= curves
        self._sent_stats |= changed

        # The previous copy is kept for readers that have just listed it.
        if size > self._copied_bytes:
            with self.path.open("rb") as file:
                content = file.read(size)
            store.write(name := make_ledger_name(driver_lock.number, content), content)
            self._copied_bytes = size
            self._ledger_names = [*self._ledger_names, name]
            store.delete(self._ledger_names[:-2])
            self._ledger_names = self._ledger_names[-2:]

    def _list_files(self, everything: bool) -> list[Path]:
        """Return the files other than curves that a driver needs; with `everything` also the report and figures."""
        top_files = self.folder.glob("*" if everything else "*.yaml")
        nested_files = [(self.folder / name).rglob("*") for name in (("code", "figures") if everything else ("code",))]
        files = [path for path in chain(top_files, *nested_files) if path.is_file() and path.name != LEDGER_FILE]
        return [path for path in files if not path.name.startswith(".")]
