"""The host of local workers: a process that imports the engine once and forks a worker whenever it is asked for one.

    python -m orchestrator.running.worker_host DESCRIPTOR [engine]

DESCRIPTOR is its end of a Unix socket. It imports the engine where workers will be asked for, and otherwise nothing.
Each message is one byte, which says what is to be forked, with one file descriptor: its end of a connection of its own.
When the other end of the socket is closed, or its process dies, the host kills what it has forked and ends. It runs
nothing itself, so it has no threads when it forks.

A branch is a fork of a host that is a host in turn: with the engine it has what else it imports while nobody asks. Its
priority is the usual one: the end of a sweep waits for it, and what it does not do while packs train it does then.
"""

import array
import gc
import os
import select
import signal
import socket
import sys
from collections import deque
from collections.abc import Sequence
from importlib import import_module

from orchestrator.running import host

ENGINE = ("trainers.train", "orchestrator.running.local_worker")  # the slow part of a worker, done once
SERVING = {  # the module whose `serve(descriptor)` a fork runs
    host.WORKER: "orchestrator.running.local_worker",
    host.CLOSING: "orchestrator.closing_worker",
    host.CLOSING_LATER: "orchestrator.closing_worker",
}
AHEAD = {  # what a branch imports, one after the other, while it is asked for nothing
    host.BRANCH: ("orchestrator.closing_worker",),
    host.BRANCH_WITH_TRACKING: ("orchestrator.closing_worker", "orchestrator.tracking.ahead"),
}


def serve(control: socket.socket, ahead: Sequence[str] = ()) -> None:
    """Fork what is asked for until the other end is closed; CLOSING_LATER when everything `ahead` is imported."""
    imports, later = deque(ahead), deque[int]()
    children: list[int] = []
    while True:
        if not imports and later:
            role, descriptor = host.CLOSING_LATER, later.popleft()
        elif imports and not select.select([control], [], [], 0)[0]:
            load(imports.popleft())
            continue
        else:
            role, received = _received(control)
            if not received:
                break
            (descriptor,) = received
            if role == host.CLOSING_LATER and imports:
                later.append(descriptor)
                continue
            if role == host.CLOSING:  # the end: nothing is worth beginning any more
                imports.clear()
                while later:
                    os.close(later.popleft())
        child = os.fork()
        if child == 0:
            control.close()
            _become(role, descriptor)
            os._exit(0)
        os.close(descriptor)
        children = [child for child in [*children, child] if _lives(child)]
    for child in children:
        if _lives(child):
            os.kill(child, signal.SIGKILL)


def load(module: str) -> None:
    """Import a module. None of it is garbage: to look for some costs a tenth of the time, and copies pages in forks."""
    gc.disable()
    import_module(module)
    gc.freeze()
    gc.enable()


def _become(role: bytes, descriptor: int) -> None:
    """In a fork: a branch, or what `role` names."""
    if role in AHEAD:
        serve(socket.socket(fileno=descriptor), AHEAD[role])
    else:
        import_module(SERVING[role]).serve(descriptor)


def _received(control: socket.socket) -> tuple[bytes, list[int]]:
    """The next message and its descriptor; none at the end."""
    size = array.array("i").itemsize
    try:
        data, ancillary, *_ = control.recvmsg(1, socket.CMSG_SPACE(size))
    except OSError:
        return b"", []
    found = array.array("i")
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(content[:size])
    return data, list(found) if data else []


def _lives(child: int) -> bool:
    """Whether a child runs; one that has ended is taken off the table of processes."""
    try:
        return os.waitpid(child, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        return False


def main() -> None:
    """Be a host, with the engine where it is asked for."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # what ends a sweep is up to its driver
    if host.WITH_ENGINE in sys.argv[2:]:
        for module in ENGINE:
            load(module)
        import_module("orchestrator.running.trainable").use_inductor_cache()
        import_module("orchestrator.running.environment").engine_files()  # of what is imported: forks may come later
    serve(socket.socket(fileno=int(sys.argv[1])))
    os._exit(0)  # nothing is left to be put in order


if __name__ == "__main__":
    main()
