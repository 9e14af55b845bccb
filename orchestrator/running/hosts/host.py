"""Processes that import ahead and fork what they are asked for, seen from the driver. Imports little itself."""

import atexit
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path

import psutil

from orchestrator.running.hosts import worker_host
from orchestrator.running.hosts.worker_host import CLOSING, CLOSING_WITH_TRACKING, WORKER, WORKERS
from search_spaces import Resources, SweepSpec


class Host:
    """A process that imports what it is `kind` for and forks whoever is asked for (`worker_host`).

    It begins at once and needs no waiting for. It ends, and its forks with it, when this process closes it or dies.
    With `forked` it is a fork of this process, which then imports the engine itself: nothing is imported twice. A fork
    has only the thread that forks, so none but that one may run.
    """

    def __init__(self, kind: str, *, forked: bool = False) -> None:
        self._kind = kind
        self._begin(forked=forked)

    def _begin(self, *, forked: bool = False) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = _fork(self._kind, theirs) if forked else _start(self._kind, theirs)

    def worker(self) -> "Connection[bytes, bytes]":
        """The connection to a new worker; the host is begun again if it has died."""
        if _has_ended(self._process):
            self.close()
            self._begin()
        return self.connect(WORKER)

    def connect(self, role: bytes) -> "Connection[bytes, bytes]":
        """The connection to a new process; one that has ended where there is none."""
        mine, theirs = socket.socketpair()
        with theirs, suppress(OSError):  # where the host dies the connection ends, as that of a dead worker
            socket.send_fds(self._control, [role], [theirs.fileno()])
        return Connection(mine.detach())

    def kill(self) -> None:
        """End it at once; its forks end when their connections do."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        """End it and its forks."""
        self._control.close()
        self._process.wait()


def _start(kind: str, control: socket.socket) -> psutil.Process:
    """A host of its own. In a session of its own: Ctrl-C is for the driver, which then ends the host."""
    command = [sys.executable, "-m", "orchestrator.running.hosts.worker_host", kind, str(control.fileno())]
    return psutil.Popen(command, pass_fds=[control.fileno()], start_new_session=True)


def _fork(kind: str, control: socket.socket) -> psutil.Process:
    """The same as a fork of this process, once that has imported what the host needs."""
    worker_host.load_all(kind)
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            _close_all_but(0, 1, 2, control.fileno())
            worker_host.be(kind, control.fileno())
        finally:
            os._exit(1)  # nothing of the command may go on here
    return psutil.Process(child)


def _close_all_but(*descriptors: int) -> None:
    for descriptor in [int(path.name) for path in Path("/dev/fd").iterdir()]:
        if descriptor not in descriptors:
            with suppress(OSError):  # the one that listed them
                os.close(descriptor)


def _has_ended(process: psutil.Process) -> bool:
    try:
        process.wait(0)
    except psutil.TimeoutExpired:
        return False
    return True


_begun: dict[str, Host] = {}


def begin_for(spec: SweepSpec) -> None:
    """Begin the hosts of a sweep before it is checked: they import while the command does."""
    if spec.resources.scheduler == "inline":
        return
    atexit.register(end_unused)  # of a command that is refused
    _begun[closing_kind(spec)] = Host(closing_kind(spec))
    if spec.resources.scheduler != "ray":
        _begun[WORKERS] = Host(WORKERS, forked=threading.active_count() == 1)


def closing_kind(spec: SweepSpec) -> str:
    """The host of what ends a sweep."""
    return CLOSING_WITH_TRACKING if spec.tracking.enabled else CLOSING


def begun(kind: str) -> Host:
    """The host of that kind that was begun, otherwise a new one. The caller ends it."""
    return _begun.pop(kind, None) or Host(kind)


def end_unused() -> None:
    """End hosts that were begun and are not needed, without waiting until they have imported."""
    while _begun:
        _begun.popitem()[1].kill()


@contextmanager
def hosted() -> Iterator[Host]:
    """A host of workers that ends with the block."""
    host = begun(WORKERS)
    try:
        yield host
    finally:
        host.close()


def may_be_local(resources: Resources) -> bool:
    """Whether `auto` may come out as local: there is no cluster to join, and no GPU is needed."""
    return resources.scheduler == "auto" and not resources.gpus and not os.environ.get("RAY_ADDRESS")
