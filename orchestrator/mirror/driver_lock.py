"""Lock of a sweep at an address: drivers have numbers and heartbeats, and the last number holds the lock.

Two drivers cannot create the object of the same number. A driver without a new heartbeat for HEARTBEAT_TIMEOUT seconds,
by the clock of the driver that waits, counts as dead and is replaced.
"""

import logging
import time
from contextlib import suppress
from pathlib import Path

from orchestrator.errors import StorageError, StorageRefused, SweepLocked, TakenLedger
from orchestrator.record.ledger.lock import HEARTBEAT_SECONDS, Owner, parse_owner
from orchestrator.storage import ObjectStore

HEARTBEAT_TIMEOUT = 6 * HEARTBEAT_SECONDS  # seconds
DRIVERS = "drivers"
ENDED = b"ended"
NUMBER_FILE = ".driver-number"  # number of the last driver of this folder
_POLL_SECONDS = 1.0
_log = logging.getLogger(__name__)


class DriverLock:
    """The lock of a sweep at its address, held from `acquire` to `release`; the holder calls `beat` regularly."""

    def __init__(self, store: ObjectStore, folder: Path) -> None:
        self.number = 0
        self._replaced_by = ""  # description of the driver that has replaced this driver
        self._store = store
        self._file = folder / NUMBER_FILE
        self._started = time.time()
        self._last_beat = 0.0

    def acquire(self, *, locked: bool = True) -> None:
        """Acquire the lock once the heartbeat of its last holder has expired. Raises SweepLocked with the holder.

        locked: whether the caller holds the lock of the local folder, so that no other process can be its driver.
        """
        last_driver = _find_last_driver(self._store)

        # The last driver of this folder is dead, because the local lock was free; any other may be alive.
        is_ours = locked and self._file.exists() and self._file.read_text() == str(_parse_number(last_driver))
        if last_driver and not is_ours:
            self._wait_for_end(last_driver)

        # A second write must not change the object, or the storage ignores the condition and cannot be locked.
        name = f"{DRIVERS}/{_parse_number(last_driver) + 1:06d}.json"
        heartbeat = self._make_heartbeat()
        if self._store.create(name, heartbeat) != heartbeat:
            raise self._make_locked_error()
        if self._store.create(name, ENDED) != heartbeat:
            raise StorageRefused(
                f"{self._store.address}: no conditional writes (If-None-Match), which the lock of a sweep needs; "
                "choose another storage"
            )
        self.number = _parse_number(name)

    def write_number(self) -> None:
        """Write the number to the local folder, so that its next driver need not wait if this driver is killed."""
        self._file.write_text(str(self.number))

    def beat(self) -> None:
        """Write a heartbeat if one is due. Raises TakenLedger if another driver has taken over."""
        if time.monotonic() - self._last_beat > HEARTBEAT_SECONDS:
            if _parse_number(_find_last_driver(self._store)) != self.number:
                self._replaced_by = describe_driver(self._store)
                self.refuse_taken()
            self._store.write(f"{DRIVERS}/{self.number:06d}.json", self._make_heartbeat())
            self._last_beat = time.monotonic()

    def refuse_taken(self) -> None:
        """Raise TakenLedger if another driver has taken over."""
        if self._replaced_by:
            address = self._store.address
            raise TakenLedger(f"{address}: {self._replaced_by} has taken over; this driver stops")

    def release(self) -> None:
        """Release the lock; does nothing if it is not held."""
        if self.number:
            with suppress(StorageError, StorageRefused):
                self._store.write(f"{DRIVERS}/{self.number:06d}.json", ENDED)

    def _wait_for_end(self, name: str) -> None:
        """Wait until a driver has ended or its heartbeat has expired. Raises SweepLocked at its next heartbeat."""
        previous = self._store.read([name])[name]
        end = time.monotonic() + HEARTBEAT_TIMEOUT
        if previous != ENDED:
            _log.warning(f"waiting up to {HEARTBEAT_TIMEOUT:g} s for a heartbeat of {describe_driver(self._store)}")
        while previous != ENDED and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
            heartbeat = self._store.read([name])[name] or previous  # a file is briefly empty while it is written
            if heartbeat not in (previous, ENDED):
                raise self._make_locked_error()
            previous = heartbeat

    def _make_heartbeat(self) -> bytes:
        """Return the content of a heartbeat: this process, and the time."""
        return Owner.this_process(self._started).encode()

    def _make_locked_error(self) -> SweepLocked:
        """Return the error that names the holder of the lock."""
        return SweepLocked(f"{self._store.address}: another driver is running: {describe_driver(self._store)}")


def read_driver(store: ObjectStore) -> Owner | None:
    """Return the last driver of a sweep; None if it has ended or there was none."""
    last_driver = _find_last_driver(store)
    return parse_owner(store.read([last_driver])[last_driver]) if last_driver else None


def describe_driver(store: ObjectStore) -> str:
    """Return a description of the last driver: user, host, pid and heartbeat."""
    driver = read_driver(store)
    return driver.describe(time.time()) if driver else "an unknown process"


def _find_last_driver(store: ObjectStore) -> str:
    """Return the name of the last driver's object; empty without any."""
    return max(store.list_sizes(DRIVERS), default="")


def _parse_number(name: str) -> int:
    """Return the number in the name of a driver's object; 0 for an empty name."""
    return int(Path(name).stem) if name else 0
