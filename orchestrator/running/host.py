"""The process that forks local workers, seen from the driver. Imports little, so that it can begin before the rest."""

import atexit
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection

from search_spaces import Resources, SweepSpec

WITH_ENGINE = "engine"  # what a host is told that forks workers
WORKER, BRANCH, BRANCH_WITH_TRACKING, CLOSING, CLOSING_LATER = b"w", b"b", b"t", b"c", b"l"  # see `worker_host`


class Forks:
    """The end of a socket at whose other end a process forks what it is asked for."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control

    def connect(self, role: bytes) -> "Connection[bytes, bytes]":
        """The connection to a new process; one that has ended where there is none."""
        return Connection(self.socket_to(role).detach())

    def socket_to(self, role: bytes) -> socket.socket:
        """The same as a socket."""
        mine, theirs = socket.socketpair()
        with theirs, suppress(OSError):  # where the other end dies the connection ends, as that of a dead worker
            socket.send_fds(self._control, [role], [theirs.fileno()])
        return mine

    def close(self) -> None:
        """Ask for no more; the other end kills what it has forked, and ends."""
        self._control.close()


class Host:
    """A process that imports the `engine` and forks workers (`worker_host`), or without the engine only branches.

    It begins at once and needs no waiting for. It ends, and its workers with it, when this process closes it or dies.
    """

    def __init__(self, *, engine: bool = True) -> None:
        self._engine = engine
        self._begin()
        self._branches: dict[bytes, Forks] = {}

    def _begin(self) -> None:
        control, theirs = socket.socketpair()
        command = [sys.executable, "-m", "orchestrator.running.worker_host", str(theirs.fileno())]
        command += [WITH_ENGINE] if self._engine else []
        # A session of its own: Ctrl-C is for the driver, which then ends the host.
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], start_new_session=True)
        theirs.close()
        self._forks = Forks(control)

    def connect(self) -> "Connection[bytes, bytes]":
        """The connection to a new worker; the host is begun again if it has died."""
        if self._process.poll() is not None:
            self.close()
            self._begin()
        return self._forks.connect(WORKER)

    def expect(self, role: bytes) -> None:
        """Have a branch made as soon as the engine is imported, without waiting for `branch`."""
        self._branches[role] = Forks(self._forks.socket_to(role))

    def branch(self, role: bytes) -> Forks:
        """A fork that imports more, and forks what needs it."""
        return self._branches.pop(role, None) or Forks(self._forks.socket_to(role))

    def kill(self) -> None:
        """End it at once; it has no workers."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        """End it, its workers and its branches."""
        while self._branches:
            self._branches.popitem()[1].close()
        self._forks.close()
        self._process.wait()


_begun: list[Host] = []


def begin_for(spec: SweepSpec) -> None:
    """Begin a host for the next `hosted` block: it imports while the command does."""
    if spec.resources.scheduler != "inline":
        _begun.append(Host(engine=spec.resources.scheduler != "ray"))
        _begun[-1].expect(closing_role(spec))
        atexit.register(end_unused)  # of a command that is refused


def closing_role(spec: SweepSpec) -> bytes:
    """The branch that ends a sweep."""
    return BRANCH_WITH_TRACKING if spec.tracking.enabled else BRANCH


def may_be_local(resources: Resources) -> bool:
    """Whether `auto` may come out as local: there is no cluster to join, and no GPU is needed."""
    return resources.scheduler == "auto" and not resources.gpus and not os.environ.get("RAY_ADDRESS")


def end_unused() -> None:
    """End a host that was begun and is not needed, without waiting until it has imported."""
    while _begun:
        _begun.pop().kill()


@contextmanager
def hosted(*, engine: bool) -> Iterator[Host]:
    """A host that ends with the block, the one that was begun if there is one; `engine`: workers are asked of it."""
    host = _begun.pop() if _begun else Host(engine=engine)
    try:
        yield host
    finally:
        host.close()
