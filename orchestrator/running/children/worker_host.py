"""The driver's side of the host that forks local workers (`worker_host_process`). Imports little itself."""

import json
import os
import socket
import threading
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

import psutil

from orchestrator.running.children.child import import_without_gc, start_child
from orchestrator.running.pack.protocol import ChildImportError

_MODULE = "orchestrator.running.children.worker_host_process"


class WorkerHost:
    """A process that has imported the engine and forks workers. It ends with its workers when the driver ends.

    In a driver without threads it is a fork of the driver, which imports the engine anyway: nothing is imported twice.
    Otherwise it is a new process, because a fork would keep only the thread that forks.
    """

    def __init__(self) -> None:
        self._start(fork=threading.active_count() == 1)

    def _start(self, *, fork: bool) -> None:
        """Start the host with one end of a socket pair; workers are requested through the other end."""
        self._requests, host_end = socket.socketpair()
        self._may_have_workers = False
        with host_end:
            self._process = _fork_host(host_end) if fork else start_child(_MODULE, host_end.fileno())

    def start_worker(self) -> "Connection[bytes, bytes]":
        """Return the connection to a new worker; restarts the host if it has died.

        Raises ChildImportError if it died because it could not import the engine.
        """
        if _has_ended(self._process):
            failure = _read_failure(self._requests)
            self.close()
            self._start(fork=False)
            if failure is not None:
                raise failure
        driver_end, worker_end = socket.socketpair()
        with worker_end, suppress(OSError):  # if the host dies, its connection closes as if the worker died
            self._may_have_workers = True
            socket.send_fds(self._requests, [b"w"], [worker_end.fileno()])
        return Connection(driver_end.detach())

    def close(self) -> None:
        """End the host and its workers; does nothing the second time."""
        self._requests.close()
        if not self._may_have_workers:  # it may still import the engine, and nobody needs that
            with suppress(psutil.NoSuchProcess):
                self._process.kill()
        self._process.wait()


def _fork_host(requests: socket.socket) -> psutil.Process:
    """Import the engine in this process, then fork the host, which shares the memory of the imported modules."""
    import_without_gc(_MODULE)
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            _close_other_descriptors(0, 1, 2, requests.fileno())
            from orchestrator.running.children import worker_host_process

            worker_host_process.serve(requests.fileno())
            os._exit(0)
        finally:
            os._exit(1)  # never return into the driver's code
    return psutil.Process(child)


def _close_other_descriptors(*descriptors: int) -> None:
    """Close all inherited descriptors but these, so that the host holds no file or lock of the driver open."""
    for descriptor in [int(path.name) for path in Path("/dev/fd").iterdir()]:
        if descriptor not in descriptors:
            with suppress(OSError):  # the descriptor that listed the folder
                os.close(descriptor)


def _read_failure(requests: socket.socket) -> ChildImportError | None:
    """Return the import error that an ended host sent, None if it sent none."""
    try:
        answer = json.loads(Connection(os.dup(requests.fileno())).recv_bytes())
    except (EOFError, OSError):
        return None
    return ChildImportError(*answer["import_error"])


def _has_ended(process: psutil.Process) -> bool:
    """Return whether a child process has ended; reaps it."""
    try:
        process.wait(0)
    except psutil.TimeoutExpired:
        return False
    return True
