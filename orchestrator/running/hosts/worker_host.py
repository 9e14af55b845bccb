"""A host: a process that imports ahead and forks whoever it is asked for, with all that imported.

    python -m orchestrator.running.hosts.worker_host KIND DESCRIPTOR

KIND is what it is for, DESCRIPTOR its end of a Unix socket. Each message is one byte, which says what is to be
forked, with one file descriptor: the fork's end of a connection of its own. When the other end of the socket is closed,
or its process dies, the host kills what it has forked and ends. It runs nothing itself, so it has no threads when it
forks.

A host of workers imports the engine before anything else. One of what ends a sweep imports while nobody asks. Its
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

WORKERS, CLOSING, CLOSING_WITH_TRACKING = "workers", "closing", "closing_with_tracking"  # kinds of hosts
WORKER, CLOSE, LATER = b"w", b"c", b"l"  # what they fork

FIRST = {  # the modules that a host imports before it forks
    WORKERS: ("trainers.training.loop", "orchestrator.running.schedulers.local_worker"),
}
AHEAD = {  # what it imports, one after the other, while it is asked for nothing
    CLOSING: ("orchestrator.sweep.closing_worker",),
    CLOSING_WITH_TRACKING: ("orchestrator.sweep.closing_worker", "orchestrator.tracking.ahead"),
}
SERVING = {  # the module whose `serve(descriptor)` a fork runs
    WORKER: "orchestrator.running.schedulers.local_worker",
    CLOSE: "orchestrator.sweep.closing_worker",
    LATER: "orchestrator.sweep.closing_worker",
}


def serve(control: socket.socket, ahead: Sequence[str] = ()) -> None:
    """Fork what is asked for until the other end is closed; LATER when everything `ahead` is imported."""
    imports, later = deque(ahead), deque[int]()
    children: list[int] = []
    while True:
        if not imports and later:
            role, descriptor = LATER, later.popleft()
        elif imports and not select.select([control], [], [], 0)[0]:
            load(imports.popleft())
            continue
        else:
            role, received = _received(control)
            if not received:
                break
            (descriptor,) = received
            if role == LATER and imports:
                later.append(descriptor)
                continue
            if role == CLOSE:  # the end: nothing is worth beginning any more
                imports.clear()
                while later:
                    os.close(later.popleft())
        child = os.fork()
        if child == 0:
            control.close()
            import_module(SERVING[role]).serve(descriptor)
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


def load_all(kind: str) -> None:
    """Import what a host of that kind imports first."""
    for module in FIRST.get(kind, ()):
        load(module)


def be(kind: str, descriptor: int) -> None:
    """Be a host until the other end of the socket is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # what ends a sweep is up to its driver
    for number in (signal.SIGTERM, signal.SIGHUP):  # a fork has the handlers of its driver
        signal.signal(number, signal.SIG_DFL)
    load_all(kind)
    if kind == WORKERS:
        import_module("orchestrator.running.pack.train_pack").use_inductor_cache()
        import_module("orchestrator.running.pack.environment").trainers_digest()  # before any fork
    serve(socket.socket(fileno=descriptor), AHEAD.get(kind, ()))
    os._exit(0)  # nothing is left to be put in order


if __name__ == "__main__":
    # Under its own name: of what is __main__ Python 3.12 shows that a library has threads when it forks.
    import_module("orchestrator.running.hosts.worker_host").be(sys.argv[1], int(sys.argv[2]))
