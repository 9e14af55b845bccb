"""Who drives a sweep at an address: numbered drivers with a heartbeat, of which the last one counts.

No two drivers can create the object of one number. One without a new heartbeat for SILENCE seconds, by the clock of the
driver that waits for it, counts as dead and is taken over.
"""

import logging
import time
from contextlib import suppress
from pathlib import Path

from orchestrator.errors import StorageError, StorageRefused, SweepLocked, TakenLedger
from orchestrator.record.ledger.lock import HEARTBEAT_SECONDS, Owner, parse_owner
from orchestrator.storage import ObjectStore

SILENCE = 6 * HEARTBEAT_SECONDS
DRIVERS = "drivers"
ENDED = b"ended"
NUMBER_FILE = ".driver-number"  # the last number of a driver of this folder
_LOOK = 1.0  # seconds
_log = logging.getLogger(__name__)


class DriverLock:
    """The lock of one sweep at its address, from `acquire` to `release`; whoever has it calls `beat` now and then."""

    def __init__(self, store: ObjectStore, folder: Path) -> None:
        self.number, self._taken_by = 0, ""  # who drives the sweep now, if this driver was taken over
        self._store, self._file, self._started, self._beaten = store, folder / NUMBER_FILE, time.time(), 0.0

    def acquire(self, *, locked: bool = True) -> None:
        """Acquire the lock once the heartbeat of its last holder has expired; raises SweepLocked naming the holder.

        locked: whether the caller holds the lock of the local folder, so that no other process drives from it.
        """
        last = _find_last_driver(self._store)
        is_ours = (
            locked and self._file.exists() and self._file.read_text() == str(_parse_number(last))
        )  # then it is dead
        if last and not is_ours:
            self._refuse_alive(last)

        # The next number, which only one driver gets; a second write shows whether the storage knows conditions.
        name, heartbeat = f"{DRIVERS}/{_parse_number(last) + 1:06d}.json", self._heartbeat()
        if self._store.create(name, heartbeat) != heartbeat:
            raise self._locked()
        if self._store.create(name, ENDED) != heartbeat:
            raise StorageRefused(
                f"{self._store.address} cannot be used: it has no conditional writes (If-None-Match), which the "
                "lock of a sweep needs"
            )
        self.number = _parse_number(name)

    def write_number(self) -> None:
        """Write our number to the local folder, so that its next driver need not wait if this one is killed."""
        self._file.write_text(str(self.number))

    def beat(self) -> None:
        """Write a heartbeat if one is due; raises TakenLedger if another one has taken over."""
        if time.monotonic() - self._beaten > HEARTBEAT_SECONDS:
            if _parse_number(_find_last_driver(self._store)) != self.number:
                self._taken_by = describe_driver(self._store)
                self.refuse_taken()
            self._store.write(f"{DRIVERS}/{self.number:06d}.json", self._heartbeat())
            self._beaten = time.monotonic()

    def refuse_taken(self) -> None:
        """Raise TakenLedger if another driver has taken over."""
        if self._taken_by:
            address = self._store.address
            raise TakenLedger(f"{address}: {self._taken_by} has taken over; this driver stops")

    def release(self) -> None:
        """Stop being the driver; does nothing for one who is not."""
        if self.number:
            with suppress(StorageError, StorageRefused):
                self._store.write(f"{DRIVERS}/{self.number:06d}.json", ENDED)

    def _refuse_alive(self, name: str) -> None:
        """Wait until a driver has ended or been silent for long enough; raise SweepLocked at its next heartbeat."""
        last, end = self._store.read([name])[name], time.monotonic() + SILENCE
        if last != ENDED:
            _log.warning(f"waiting up to {SILENCE:g} s for a heartbeat of {describe_driver(self._store)}")
        while last != ENDED and time.monotonic() < end:
            time.sleep(_LOOK)
            heartbeat = self._store.read([name])[name] or last  # a file is empty for an instant while it is written
            if heartbeat not in (last, ENDED):
                raise self._locked()
            last = heartbeat

    def _heartbeat(self) -> bytes:
        return Owner.this_process(self._started).encode()

    def _locked(self) -> SweepLocked:
        return SweepLocked(f"{self._store.address}: another driver is running: {describe_driver(self._store)}")


def read_driver(store: ObjectStore) -> Owner | None:
    """Return the last driver of a sweep; None if it has ended or there is none."""
    last = _find_last_driver(store)
    return parse_owner(store.read([last])[last]) if last else None


def describe_driver(store: ObjectStore) -> str:
    """Describe the last driver, as `lock` does that of a folder."""
    driver = read_driver(store)
    return driver.describe(time.time()) if driver else "an unknown process"


def _find_last_driver(store: ObjectStore) -> str:
    return max(store.sizes(DRIVERS), default="")


def _parse_number(name: str) -> int:
    return int(Path(name).stem) if name else 0
