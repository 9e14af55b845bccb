"""Lock of a sweep folder: one driver at a time. The error for a second driver names the first.

The operating system holds the lock (`flock` on `.lock`), so a killed driver frees it at once. `.owner.json` names the
holder with a heartbeat, refreshed by a thread. People read it; the program relies on it only in
`describe_running_driver`, where it cannot see the lock: in read-only folders and for a sweep at an address.
"""

from __future__ import annotations

import contextlib
import getpass
import json
import os
import socket
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from filelock import FileLock, Timeout

from orchestrator.addresses import find_address
from orchestrator.errors import LedgerError, SweepLocked
from orchestrator.record.ledger.folders import LOCK_FILE, OWNER_FILE, refuse_unexpected_files

OWNER_BYTES = 512  # fixed size of the file, padded with blanks; more than any owner needs
HEARTBEAT_SECONDS = 5.0
MAX_TIME = 2.0**40  # Unix seconds; later times, and larger pids, are invalid
ACQUIRE_SECONDS = 0.5  # timeout; outlasts a probe by `describe_running_driver`


@dataclass(frozen=True, kw_only=True)
class Owner:
    """The process that holds, or last held, a sweep; times in Unix seconds."""

    host: str
    pid: int
    user: str
    started: float
    heartbeat: float

    @classmethod
    def this_process(cls, started: float) -> Self:
        """Return this process as the owner, with a heartbeat of now."""
        try:
            user = getpass.getuser()
        except (OSError, KeyError):  # a container's user id without a name
            user = str(os.getuid())
        return cls(host=socket.gethostname(), pid=os.getpid(), user=user, started=started, heartbeat=time.time())

    def encode(self) -> bytes:
        """Return the owner as text for `parse_owner`."""
        return json.dumps(asdict(self)).encode()

    @property
    def is_this_process(self) -> bool:
        """Whether the owner is this process."""
        return (self.host, self.pid) == (socket.gethostname(), os.getpid())

    @property
    def is_alive(self) -> bool:
        """Whether the last heartbeat is younger than three intervals."""
        return time.time() - self.heartbeat < 3 * HEARTBEAT_SECONDS

    def describe(self, now: float) -> str:
        """Return e.g. `ada@lab3 pid 4711, last heartbeat 3 s ago`."""
        return f"{self.user}@{self.host} pid {self.pid}, last heartbeat {max(0.0, now - self.heartbeat):.0f} s ago"


def read_owner(folder: Path) -> Owner | None:
    """Return the current or last owner of the sweep in `folder`; None if the file is missing or damaged."""
    try:  # O_NONBLOCK: opening a named pipe must not block
        descriptor = os.open(folder / OWNER_FILE, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            return parse_owner(file.read(8 * OWNER_BYTES))
    except OSError:
        return None


def parse_owner(content: bytes) -> Owner | None:
    """Return the owner that `Owner.encode` wrote; None for any other content."""
    try:
        owner = Owner(**json.loads(content))
    except (ValueError, TypeError, RecursionError):
        return None
    names, times = (owner.host, owner.user), (owner.started, owner.heartbeat)
    is_valid = type(owner.pid) is int and 0 < owner.pid < MAX_TIME
    is_valid = is_valid and all(isinstance(name, str) and name.isprintable() for name in names)
    is_valid = is_valid and all(type(seconds) in (int, float) and 0 <= seconds < MAX_TIME for seconds in times)
    return owner if is_valid else None


def describe_running_driver(folder: Path) -> str | None:
    """Return the description of the driver that is running the sweep; None if there is none."""
    if not (folder / LOCK_FILE).exists():
        return None

    # A driver on this machine or in a shared folder holds the lock.
    probe = FileLock(folder / LOCK_FILE, timeout=0)
    try:
        probe.acquire()
    except Timeout:
        return _describe_owner(folder)
    except OSError:  # a folder that we may only read
        return _describe_alive_owner(folder)

    # The lock was free: only a driver at the address can be running.
    probe.release()
    return _describe_alive_owner(folder) if find_address(folder) else None


def refuse_running(folder: Path) -> None:
    """Raise SweepLocked if a driver on this machine or in a shared folder is running the sweep."""
    if find_address(folder) is None and (owner := describe_running_driver(folder)) is not None:
        raise SweepLocked(f"{folder}: another driver is running: {owner}")


def _describe_alive_owner(folder: Path) -> str | None:
    """Return the description of a driver by its heartbeat alone; None if that is old."""
    owner = read_owner(folder)
    return owner.describe(time.time()) if owner is not None and owner.is_alive else None


class SweepLock:
    """The lock of one sweep folder, held from `acquire` to `release` while a thread refreshes the heartbeat."""

    def __init__(self, folder: Path, heartbeat_seconds: float = HEARTBEAT_SECONDS) -> None:
        self.folder = folder
        self._heartbeat_seconds = heartbeat_seconds
        # thread_local=False: the driver may close the ledger from another thread than the one that opened it
        self._lock = FileLock(folder / LOCK_FILE, timeout=ACQUIRE_SECONDS, thread_local=False)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._started = 0.0
        self._other_owner: Owner | None = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def acquire(self) -> None:
        """Acquire the lock. Raises SweepLocked with its owner, UnexpectedEntry, LedgerError if it cannot be written."""
        refuse_unexpected_files(self.folder)
        try:
            self._lock.acquire()
        except Timeout:
            raise SweepLocked(f"{self.folder}: another driver is running: {_describe_owner(self.folder)}") from None
        except OSError as error:
            raise LedgerError(f"{self.folder / LOCK_FILE}: cannot take the lock: {error.strerror}") from error

        # Write the heartbeat once, so that an unwritable folder is an error now, then from a thread.
        self._started = time.time()
        try:
            self._beat()
        except OSError as error:
            self._lock.release()
            raise LedgerError(f"{self.folder / OWNER_FILE}: cannot be written: {error.strerror}") from error
        self._stop.clear()
        self._thread = threading.Thread(target=self._keep_beating, name="sweep-lock-heartbeat", daemon=True)
        self._thread.start()

    def describe_other_holder(self) -> str:
        """Describe another process that writes the sweep despite our lock, on a file system without working locks."""
        self._detect_other_owner()
        return "another process" if self._other_owner is None else self._other_owner.describe(time.time())

    def _detect_other_owner(self) -> None:
        """Remember the owner in OWNER_FILE if it is another process that is alive."""
        owner = read_owner(self.folder)
        if owner is not None and not owner.is_this_process and owner.is_alive:
            self._other_owner = owner

    def release(self) -> None:
        """Stop the heartbeat and release the lock; does nothing the second time."""
        if self._thread is None:
            return
        self._stop.set()
        self._thread.join()
        self._thread = None
        with contextlib.suppress(OSError):  # the file is informative only; the lock decides
            owner = read_owner(self.folder)
            if owner is None or owner.is_this_process:  # not another process, on a file system without working locks
                (self.folder / OWNER_FILE).unlink()
        self._lock.release()

    def _keep_beating(self) -> None:
        while not self._stop.wait(self._heartbeat_seconds):
            with contextlib.suppress(OSError):  # a full disk also makes the ledger fail, with an error
                self._beat()

    def _beat(self) -> None:
        """Write the heartbeat; first note another owner, whose heartbeat it overwrites."""
        self._detect_other_owner()

        # Overwrite the padded file in a single write, so that a reader never sees it empty.
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(self.folder / OWNER_FILE, flags, 0o644)
        with os.fdopen(descriptor, "wb") as file:
            file.write(Owner.this_process(self._started).encode().ljust(OWNER_BYTES))
            file.truncate()


def _describe_owner(folder: Path) -> str:
    owner = read_owner(folder)
    return f"an unknown process ({OWNER_FILE} is missing or damaged)" if owner is None else owner.describe(time.time())
