"""The host of local workers: imports the engine once and forks a worker for each request.

A request is one byte on a Unix socket with a file descriptor: the worker's end of its connection to the driver. When
the driver closes the socket or dies, the host kills its workers and ends. The host itself has no threads, so it may
fork.
"""

import os
import signal
import socket

import trainers.training.loop  # noqa: F401 - the engine, for workers
from orchestrator.engine.environment import compute_trainers_digest
from orchestrator.running.pack.train_pack import use_inductor_cache
from orchestrator.running.schedulers import local_worker


def serve(descriptor: int) -> None:
    """Fork a worker for every request until the driver closes the socket."""
    # The driver decides when workers end, so Ctrl-C is ignored; a fork has inherited the driver's other handlers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)

    # Done once before the forks, so that no worker repeats it.
    use_inductor_cache()
    compute_trainers_digest()

    # Workers that still train when the driver closes the socket are killed: nobody would record their evaluations.
    requests = socket.socket(fileno=descriptor)
    workers: list[int] = []
    while (connection := _receive_descriptor(requests)) is not None:
        worker = os.fork()
        if worker == 0:
            requests.close()
            local_worker.serve_packs(connection)
            os._exit(0)
        os.close(connection)
        workers = [pid for pid in [*workers, worker] if _is_running(pid)]
    for worker in workers:
        if _is_running(worker):
            os.kill(worker, signal.SIGKILL)


def _receive_descriptor(requests: socket.socket) -> int | None:
    """Return the file descriptor of the next request, None when the driver has closed the socket."""
    try:
        _, descriptors, *_ = socket.recv_fds(requests, 1, 1)
    except OSError:
        return None
    return descriptors[0] if descriptors else None


def _is_running(worker: int) -> bool:
    """Return whether a worker still runs; reaps one that has ended."""
    try:
        return os.waitpid(worker, os.WNOHANG) == (0, 0)
    except ChildProcessError:
        return False
