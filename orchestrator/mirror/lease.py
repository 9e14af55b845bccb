"""Who drives a sweep at an address: numbered owners with a heartbeat, of which the last one counts.

No two owners can be created with one number, so of two drivers one is refused. An owner without a new heartbeat for
SILENCE seconds, by the clock of the driver that waits for it, counts as dead and is replaced.
"""

import logging
import threading
import time
from contextlib import suppress
from pathlib import Path

from orchestrator.errors import StorageError, StorageRefused, SweepLocked
from orchestrator.record.ledger.lock import HEARTBEAT_SECONDS, Owner, parse_owner
from orchestrator.storage import Store

SILENCE = 6 * HEARTBEAT_SECONDS
OWNERS = "owners"
NUMBER_FILE = ".mirror-owner"  # the number under which a driver of this folder was the owner
_LOOK = 1.0  # seconds
_log = logging.getLogger(__name__)


class Lease:
    """The ownership of one sweep, from `acquire` to `release`; the caller holds the lock of its local folder."""

    def __init__(self, store: Store, folder: Path) -> None:
        self._store, self._file, self._number = store, folder / NUMBER_FILE, 0
        self._started, self._stop, self.taken_by = time.time(), threading.Event(), ""
        self._thread = threading.Thread(target=self._send_heartbeats, daemon=True)

    def acquire(self, *, locked: bool = True) -> None:
        """Become the owner, after waiting for the heartbeat of the last one; raises SweepLocked naming it.

        locked: whether the caller holds the lock of the local folder, so that no other process drives from it.
        """
        others = list(self._store.sizes(OWNERS))
        if others and self._is_alive(others[-1], locked):
            raise SweepLocked(f"the sweep in {self._store.address} is being run by {describe_owner(self._store)}")
        self._number = (int(Path(others[-1]).stem) if others else 0) + 1
        mine = Owner.this_process(self._started).encode()
        first = self._store.create(self._name, mine) == mine
        if first and self._store.create(self._name, b"") != mine:
            raise StorageRefused(
                f"{self._store.address} cannot be used: it has no conditional writes (If-None-Match), so "
                "it overwrites an object that exists, and could not keep two drivers apart"
            )
        if not first or max(self._store.sizes(OWNERS)) != self._name:  # a later one was created, and ours late
            raise SweepLocked(f"the sweep in {self._store.address} is being run by {describe_owner(self._store)}")
        self._store.delete(others)
        self._store = self._store.with_patience(HEARTBEAT_SECONDS)
        self._thread.start()

    def write_number(self) -> None:
        """Write our number to the local folder, so that its next driver need not wait if this one is killed."""
        self._file.write_text(str(self._number))

    def release(self) -> None:
        """Stop being the owner; does nothing for one who is not, or the second time."""
        if self._thread.ident is not None and not self._stop.is_set():
            self._stop.set()
            self._thread.join()
            if not self.taken_by:
                with suppress(StorageError, StorageRefused):
                    self._store.write(self._name, b"")

    @property
    def _name(self) -> str:
        return f"{OWNERS}/{self._number:06d}.json"

    def _is_alive(self, name: str, locked: bool) -> bool:
        """Return whether an owner is alive; one that drove from this folder is not, if we hold the lock of it."""
        with suppress(OSError):
            if locked and self._file.read_text() == str(int(Path(name).stem)):
                return False
        before, end = self._store.read([name])[name], time.monotonic() + SILENCE
        if before:
            _log.warning(f"waiting up to {SILENCE:g} s for a heartbeat of {describe_owner(self._store)}")
        empty = 0
        while before and empty < 2 and time.monotonic() < end:
            time.sleep(_LOOK)
            if not self._store.has(name):
                return True  # another driver that waited, too, has taken its place
            if (now := self._store.read([name])[name]) not in (before, b""):
                return True
            empty = 0 if now else empty + 1  # it has ended; once may be a file that is being written
        return False

    def _send_heartbeats(self) -> None:
        while not self._stop.wait(HEARTBEAT_SECONDS):
            with suppress(StorageError, StorageRefused):  # the mirror meets the same error and logs it
                if max(self._store.sizes(OWNERS), default=self._name) != self._name:
                    self.taken_by = describe_owner(self._store)
                    return
                self._store.write(self._name, Owner.this_process(self._started).encode())


def read_remote_owner(store: Store) -> bytes:
    """Return the entry of the last owner, empty if it has ended or there is none."""
    names = list(store.sizes(OWNERS))[-1:]
    return b"".join(store.read(names).values())


def describe_owner(store: Store) -> str:
    """Describe the last owner, as `lock` does that of a folder."""
    owner = parse_owner(read_remote_owner(store))
    return "an unknown process" if owner is None else owner.describe(time.time())
