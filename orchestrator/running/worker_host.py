"""The host of local workers: a process that imports the engine once and forks a worker whenever it is asked for one.

    python -m orchestrator.running.worker_host DESCRIPTOR

DESCRIPTOR is its end of a Unix socket. Each message is one byte with one file descriptor: the worker's end of a
connection of its own. When the other end of the socket is closed, or its process dies, the host kills its workers and
ends. It runs nothing itself, so it has no threads when it forks.
"""

import array
import os
import signal
import socket
import sys

import trainers.train  # noqa: F401  the slow part of a worker, done once
from orchestrator.running import local_worker
from orchestrator.running.trainable import use_inductor_cache


def serve(control: socket.socket) -> None:
    """Fork workers until the other end is closed."""
    use_inductor_cache()
    children: list[int] = []
    while descriptors := _received(control):
        (descriptor,) = descriptors
        child = os.fork()
        if child == 0:
            control.close()
            local_worker.serve(descriptor)
            os._exit(0)
        os.close(descriptor)
        children = [child for child in [*children, child] if _lives(child)]
    for child in children:
        if _lives(child):
            os.kill(child, signal.SIGKILL)


def _received(control: socket.socket) -> list[int]:
    """The descriptor of the next message; empty at the end."""
    size = array.array("i").itemsize
    try:
        data, ancillary, *_ = control.recvmsg(1, socket.CMSG_SPACE(size))
    except OSError:
        return []
    found = array.array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(content[:size])
    return list(found) if data else []


def _lives(child: int) -> bool:
    """Whether a child runs; one that has ended is taken off the table of processes."""
    try:
        return os.waitpid(child, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        return False


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # what ends a sweep is up to its driver
    serve(socket.socket(fileno=int(sys.argv[1])))
