"""The process that forks local workers, seen from the driver. Imports little, so that it can begin before the rest."""

import atexit
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection

from search_spaces import Resources


class Host:
    """A process that imports the engine and forks workers (`worker_host`). It begins at once and needs no waiting for.

    It ends, and its workers with it, when this process closes it or dies.
    """

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._control, theirs = socket.socketpair()
        command = [sys.executable, "-m", "orchestrator.running.worker_host", str(theirs.fileno())]
        # A session of its own: Ctrl-C is for the driver, which then ends the host.
        self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], start_new_session=True)
        theirs.close()

    def connect(self) -> "Connection[bytes, bytes]":
        """The connection to a new worker; the host is begun again if it has died."""
        if self._process.poll() is not None:
            self.close()
            self._begin()
        mine, theirs = socket.socketpair()
        with theirs, suppress(OSError):  # where the host dies meanwhile the connection ends, as that of a dead worker
            socket.send_fds(self._control, [b"w"], [theirs.fileno()])
        return Connection(mine.detach())

    def kill(self) -> None:
        """End it at once; it has no workers."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        """End it and its workers."""
        self._control.close()
        self._process.wait()


_begun: list[Host] = []


def begin_for(resources: Resources) -> None:
    """Begin a host for the next `hosted` block where there may be one: it imports while the command does."""
    if resources.scheduler == "local" or may_be_local(resources):
        _begun.append(Host())
        atexit.register(end_unused)  # of a command that is refused


def may_be_local(resources: Resources) -> bool:
    """Whether `auto` may come out as local: there is no cluster to join, and no GPU is needed."""
    return resources.scheduler == "auto" and not resources.gpus and not os.environ.get("RAY_ADDRESS")


def end_unused() -> None:
    """End a host that was begun and is not needed, without waiting until it has imported."""
    while _begun:
        _begun.pop().kill()


@contextmanager
def hosted() -> Iterator[Host]:
    """A host that ends with the block, the one that was begun if there is one."""
    host = _begun.pop() if _begun else Host()
    try:
        yield host
    finally:
        host.close()
