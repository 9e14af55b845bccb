"""The ledger of a sweep that has an address: a thread copies records there within about a second.

An outage is logged once and does not stop training; the copy catches up later. `close` waits about a minute for it.
"""

import logging
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from orchestrator.addresses import address_of
from orchestrator.errors import LengthwiseError, StorageError, StorageRefused, SweepLocked, TakenLedger
from orchestrator.mirror.fetch import SEEN_FILE, SEGMENTS, fetch_sweep, missing_records, refuse_deleted
from orchestrator.mirror.lease import Lease, describe_owner
from orchestrator.record.ledger.folders import STOP_FILE
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.records import LEDGER_FILE, Record, decode
from orchestrator.storage import Store
from orchestrator.wording import command

PAUSE = 1.0  # seconds between two passes
PATIENCE = 5.0  # seconds for which a pass repeats a failed request, and training waits for the first records
_log = logging.getLogger(__name__)


def create_ledger(folder: Path, first_fields: Mapping[str, Any]) -> Ledger:
    """Begin a sweep as `Ledger.create` does, also at the address of its folder; raises SweepLocked as well."""
    if address_of(folder) is None:
        return Ledger.create(folder, first_fields)
    store = Store.for_copy(folder)
    lease = Lease(store, folder)
    lease.acquire(locked=False)  # a driver of this machine that has just begun has the lock
    try:
        return MirroredLedger.create(folder, first_fields).mirror_to(store, lease, 0)
    except BaseException:
        lease.release()
        raise


def open_ledger(folder: Path) -> Ledger:
    """Open a sweep as `Ledger.open` does, after updating its local copy from its address, and append to both.

    Raises what `refuse_deleted`, `fetch_sweep` and `Ledger.open` raise.
    """
    if address_of(folder) is None:
        return Ledger.open(folder)
    refuse_deleted(folder)
    fetch_sweep(folder)
    ledger, store = MirroredLedger.open(folder), Store.for_copy(folder)
    lease = Lease(store, folder)
    try:
        lease.acquire()
        if missing_records(store, folder, ledger.path.read_bytes()):
            raise SweepLocked(f"the sweep in {store.address} was being run by another driver until now; try again")
        for name in store.sizes("checkpoints"):  # a pack that has any was begun, and is not cut again
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
        return ledger.mirror_to(store, lease, sum(store.sizes(SEGMENTS).values()))
    except BaseException:
        lease.release()
        ledger.close()
        raise


def wait_for_copy(ledger: Ledger) -> str | None:
    """Wait a few seconds until a sweep is at its address; return a sentence if it has one and is not there yet."""
    return ledger.wait_for_copy() if isinstance(ledger, MirroredLedger) else None


class MirroredLedger(Ledger):
    """A ledger with a thread that copies it and the files that it names to an address."""

    _lease: Lease | None = None

    def mirror_to(self, store: Store, lease: Lease, copied: int) -> "MirroredLedger":
        """Copy to a store from now on, whose ledger ends at byte `copied`."""
        self._patient, self._store, self._copied = store, store.with_patience(PATIENCE), copied
        self._seen, self._taken, self._failed_since = dict[str, tuple[int, int]](), "", ""
        self._begun, self._passed, self._wake = 0, 0, threading.Event()
        self._is_stopped: bool | None = None  # not known: a driver that was killed may have left the object
        self._closing, self._thread = False, threading.Thread(target=self._follow, daemon=True)
        self._lease = lease
        lease.write_number()
        self._thread.start()
        return self

    def append_all(self, kind: str, entries: Iterable[Mapping[str, Any]]) -> list[Record]:
        """Write records, which the thread copies; raises TakenLedger also if another driver is the owner now."""
        if self._lease is not None:
            self._refuse_other_owner(self._lease)
        return super().append_all(kind, entries)

    def wait_for_copy(self) -> str | None:
        """Wait until everything so far is at the address; return a sentence if it is not within PATIENCE seconds."""
        wanted, end = self._begun + 1, time.monotonic() + PATIENCE
        self._wake.set()
        while self._passed < wanted:
            if time.monotonic() > end:
                self._failed_since = self._failed_since or time.strftime("%H:%M:%S")
                return (
                    f"the first records are not at {self._store.address} yet, which answers late or with errors; "
                    "training begins, and until they are there only this machine can continue the sweep"
                )
            time.sleep(0.01)
        return None

    def close(self) -> None:
        """Copy missing records and files, then close the ledger; `problem` is set if not everything could be copied."""
        lease, self._lease = self._lease, None
        if lease is not None:
            self._closing = True
            self._wake.set()
            self._thread.join()
            self._store = self._patient
            try:
                self._refuse_other_owner(lease)
                self._copy(everything=True)
            except (LengthwiseError, OSError) as error:
                self.problem = f"not everything was copied to {self._store.address}: {error}; it is in {self.folder}"
                if not isinstance(error, TakenLedger):
                    self.problem += f", and is copied by: {command('resume', self.folder)}"
            lease.release()
        super().close()

    def _refuse_other_owner(self, lease: Lease) -> None:
        if taken := self._taken or lease.taken_by:
            raise TakenLedger(f"{self._store.address} is continued by {taken}; one driver is enough, so this one stops")

    def _follow(self) -> None:
        while True:
            self._wake.clear()
            if self._closing:
                return
            self._begun += 1
            try:
                self._copy()
            except TakenLedger:
                return
            except (StorageError, StorageRefused, OSError) as error:
                if not self._failed_since:
                    self._failed_since = time.strftime("%H:%M:%S")
                    _log.warning(f"{error}; training continues, and what is missing there is copied later")
            else:
                self._passed = self._begun
                if self._failed_since:
                    _log.warning(f"{self._store.address} answers again, for the first time since {self._failed_since}")
                self._failed_since = ""
            self._wake.wait(PAUSE)

    def _copy(self, *, everything: bool = False) -> None:
        """Copy the files, several at once, then the records that name them, as one segment.

        Raises StorageError, StorageRefused, and TakenLedger where another driver has written the segment.
        """
        self._copy_stop_file()
        with (self.folder / LEDGER_FILE).open("rb") as file:
            file.seek(self._copied)
            content = file.read(self._size - self._copied)  # up to the last record that was acknowledged
        records = [decode(line) for line in content.split(b"\n")[:-1]]
        named = (self.folder / record.fields["file"] for record in records if "file" in record.fields)
        self._copy_changed(chain(self._other_files() if everything else self._small_files(), named))
        if not content:
            return
        there = self._store.create(f"{SEGMENTS}/{self._copied:012d}.jsonl", content)
        if not there or not content.startswith(there):
            self._taken = describe_owner(self._store)
            raise TakenLedger(f"{self._store.address} is continued by {self._taken}")
        self._copied += len(there)
        (self.folder / SEEN_FILE).touch()
        if there != content:  # it is from an earlier pass, whose answer was lost
            self._copy()

    def _copy_changed(self, paths: Iterable[Path]) -> None:
        stats = {str(path.relative_to(self.folder)): path.stat() for path in paths}
        found = {name: (stat.st_mtime_ns, stat.st_size) for name, stat in stats.items()}
        changed = {name: place for name, place in found.items() if self._seen.get(name) != place}
        self._store.send(self.folder, changed)
        self._seen |= changed

    def _copy_stop_file(self) -> None:
        """Let the packs of other machines see the stop file, by which the driver stops them."""
        is_stopped = (self.folder / STOP_FILE).exists()
        if is_stopped != self._is_stopped:
            self._store.write(STOP_FILE, b"") if is_stopped else self._store.delete([STOP_FILE])
            self._is_stopped = is_stopped

    def _small_files(self) -> Iterator[Path]:
        """Yield the files that another driver needs and no record names: sweep.yaml and copies of code."""
        return chain(self.folder.glob("*.yaml"), self._below("code"))

    def _other_files(self) -> Iterator[Path]:
        """Yield the small files, the figures and the tables."""
        top = (path for path in self.folder.iterdir() if path.is_file() and path.name != LEDGER_FILE)
        paths = chain(top, self._below("code"), self._below("figures"))
        return (path for path in paths if not path.name.startswith("."))

    def _below(self, name: str) -> Iterator[Path]:
        return (path for path in (self.folder / name).rglob("*") if path.is_file())
