"""The ledger of a sweep that has an address: a thread copies records there within about a second.

An outage is logged once and does not stop training; the copy catches up later. `close` waits about a minute for it.
"""

import logging
import threading
import time
from collections.abc import Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from orchestrator.addresses import address_of
from orchestrator.errors import LengthwiseError, StorageError, StorageRefused, SweepLocked, TakenLedger
from orchestrator.mirror.driver_lock import DriverLock
from orchestrator.mirror.fetch import LEDGERS, fetch_sweep, last_ledger, ledger_name, ledger_size, read_newer
from orchestrator.record.ledger.folders import STOP_FILE
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.records import LEDGER_FILE, Record, decode
from orchestrator.storage import Store
from orchestrator.wording import command

PAUSE = 1.0  # seconds between two copies, or longer if a copy takes long
PATIENCE = 5.0  # seconds for which a copy repeats a failed request, and training waits for the first records
_log = logging.getLogger(__name__)


def create_ledger(folder: Path, first_fields: Mapping[str, Any]) -> Ledger:
    """Begin a sweep as `Ledger.create` does, also at the address of its folder; raises SweepLocked as well."""
    if address_of(folder) is None:
        return Ledger.create(folder, first_fields)
    store = Store.for_copy(folder)
    lock = DriverLock(store, folder)
    lock.acquire(locked=False)  # a driver of this machine that has just begun has the lock
    try:
        return MirroredLedger.create(folder, first_fields).mirror_to(store, lock)
    except BaseException:
        lock.release()
        raise


def open_ledger(folder: Path) -> Ledger:
    """Open a sweep as `Ledger.open` does, after updating its local copy from its address, and append to both.

    Raises what `fetch_sweep` and `Ledger.open` raise.
    """
    if address_of(folder) is None:
        return Ledger.open(folder)
    fetch_sweep(folder)
    ledger, store = MirroredLedger.open(folder), Store.for_copy(folder)
    lock = DriverLock(store, folder)
    try:
        lock.acquire()
        if read_newer(store, folder):
            raise SweepLocked(f"the sweep in {store.address} was being run by another driver until now; try again")
        for name in store.sizes("checkpoints"):  # a pack that has any was begun, and is not cut again
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
        return ledger.mirror_to(store, lock)
    except BaseException:
        lock.release()
        ledger.close()
        raise


def wait_for_copy(ledger: Ledger) -> str | None:
    """Wait a few seconds until a sweep is at its address; return a sentence if it has one and is not there yet."""
    if not isinstance(ledger, MirroredLedger) or ledger.is_copied(PATIENCE):
        return None
    return (
        f"the first records are not at {ledger.address} yet, which answers late or with errors; training begins, and "
        "until they are there only this machine can continue the sweep"
    )


class MirroredLedger(Ledger):
    """A ledger with a thread that copies it and the files that it names to an address."""

    _driver: DriverLock | None = None

    def mirror_to(self, store: Store, driver: DriverLock) -> "MirroredLedger":
        """Copy to a store from now on."""
        self.address, self._driver = store.address, driver
        self._patient, self._store = store, store.with_patience(PATIENCE)
        self._ledgers, self._copied = list(store.sizes(LEDGERS)), ledger_size(last_ledger(store))
        self._sent = dict[str, tuple[int, int]]()  # changed and size of files as they are at the address
        self._is_stopped: bool | None = None  # not known: a driver that was killed may have left the object
        self._passed, self._failing, self._ending, self._wake = 0.0, False, False, threading.Event()
        driver.write_number()
        self._thread = threading.Thread(target=self._keep_copying, args=[driver], daemon=True)
        self._thread.start()
        return self

    def append_all(self, kind: str, entries: Iterable[Mapping[str, Any]]) -> list[Record]:
        """Write records, which the thread copies; raises TakenLedger also if another driver has taken over."""
        if self._driver is not None:
            self._driver.refuse_taken()
        return super().append_all(kind, entries)

    def is_copied(self, seconds: float) -> bool:
        """Copy now, and return whether everything so far is at the address within so many seconds."""
        began = time.monotonic()
        self._wake.set()
        while self._passed < began and time.monotonic() < began + seconds:
            time.sleep(0.01)
        return self._passed >= began

    def close(self) -> None:
        """Copy missing records and files, then close the ledger; `problem` is set if not everything could be copied."""
        driver, self._driver = self._driver, None
        if driver is not None:
            self._ending = True
            self._wake.set()
            self._thread.join()
            self._store = self._patient
            try:
                driver.refuse_taken()
                self._copy(driver, self._files(everything=True))
            except (LengthwiseError, OSError) as error:
                self.problem = f"not everything was copied to {self.address}: {error}; it is in {self.folder}"
                if not isinstance(error, TakenLedger):
                    self.problem += f", and is copied by: {command('resume', self.folder)}"
            driver.release()
        super().close()

    def _keep_copying(self, driver: DriverLock) -> None:
        while True:
            self._wake.clear()
            if self._ending:
                return
            began = time.monotonic()
            try:
                driver.beat()
                self._copy(driver, self._files())
                self._passed, self._failing = began, False
            except TakenLedger:
                return
            except (StorageError, StorageRefused, OSError) as error:
                if not self._failing:
                    _log.warning(f"{error}; training continues, and what is missing there is copied later")
                self._failing = True
            self._wake.wait(max(PAUSE, 4 * (time.monotonic() - began)))

    def _copy(self, driver: DriverLock, files: Iterable[Path]) -> None:
        """Copy files that have changed and those that new records name, then the ledger."""
        self._copy_stop_file()
        content, size = b"", self._size  # up to the last record that was acknowledged
        if size > self._copied:
            with (self.folder / LEDGER_FILE).open("rb") as file:
                content = file.read(size)
        records = [decode(line) for line in content[self._copied :].split(b"\n")[:-1]]
        named = (self.folder / record.fields["file"] for record in records if "file" in record.fields)
        states = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in chain(files, named)}
        changed = {str(path.relative_to(self.folder)): state for path, state in states.items()}
        changed = {name: state for name, state in changed.items() if self._sent.get(name) != state}
        self._store.send(self.folder, changed)
        self._sent |= changed

        # the ledger before this one stays, for whoever has just listed it
        if records:
            self._store.write(name := ledger_name(driver.number, content), content)
            self._copied, self._ledgers = len(content), [*self._ledgers, name]
            self._store.delete(self._ledgers[:-2])
            self._ledgers = self._ledgers[-2:]

    def _copy_stop_file(self) -> None:
        """Let the packs of other machines see the stop file, by which the driver stops them."""
        is_stopped = (self.folder / STOP_FILE).exists()
        if is_stopped != self._is_stopped:
            self._store.write(STOP_FILE, b"") if is_stopped else self._store.delete([STOP_FILE])
            self._is_stopped = is_stopped

    def _files(self, *, everything: bool = False) -> list[Path]:
        """Return the files that another driver needs and no record names, at the end also the page and the figures."""
        top = self.folder.glob("*" if everything else "*.yaml")
        below = [(self.folder / name).rglob("*") for name in (("code", "figures") if everything else ("code",))]
        files = [path for path in chain(top, *below) if path.is_file() and path.name != LEDGER_FILE]
        return [path for path in files if not path.name.startswith(".")]
