"""The processes of a local Ray instance: they end with the driver that started it, even if it is killed.

The guardian of a folder is the process

    python -m orchestrator.running.with_ray.processes FOLDER

Its standard input is a pipe that the driver holds. When the pipe ends, because the driver closes it or is dead, the
guardian kills every process of the Ray in FOLDER and removes the folder. Without it only the processes that the driver
itself has started would end with the driver: Ray's workers and agents live on for up to a minute.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil

from orchestrator.code.packages import make_module_command

MARK = "LENGTHWISE_RAY"  # the folder of a Ray, in the environment of all its processes
MAX_PASSES = 50  # then a process that cannot be killed is left


@contextmanager
def mark_processes(folder: Path) -> Iterator[None]:
    """Mark the processes started in the block, and their children, as processes of the Ray instance in `folder`."""
    os.environ[MARK] = str(folder)
    try:
        yield
    finally:
        del os.environ[MARK]


@contextmanager
def guard_processes(folder: Path) -> Iterator[int]:
    """Kill the processes of the Ray instance in `folder`, and remove it, after the block or when this process dies.

    Yields the process id of the guardian.
    """
    guardian = subprocess.Popen(
        make_module_command("orchestrator.running.with_ray.processes", str(folder)),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert guardian.stdin is not None
    try:
        yield guardian.pid
    finally:
        guardian.stdin.close()
        guardian.wait()


def kill_processes(folder: Path) -> None:
    """Kill the processes of the Ray instance in `folder` until none is left, in at most MAX_PASSES passes."""
    empty_passes = 0
    for _ in range(MAX_PASSES):
        remaining = find_processes(folder)
        empty_passes = 0 if remaining else empty_passes + 1
        if empty_passes == 2:  # not after the first: a process that is starting has no readable environment yet
            return
        for process in remaining:
            with suppress(psutil.Error):
                process.kill()
        time.sleep(0.05)


def find_processes(folder: Path) -> list[psutil.Process]:
    """Return the living processes of the Ray instance in `folder`."""
    return [process for process in psutil.process_iter() if _has_mark(process, str(folder))]


def _has_mark(process: psutil.Process, folder: str) -> bool:
    """Return whether a process is marked, or has logs in the folder: Ray's agents overwrite their environment."""
    try:
        if process.environ().get(MARK) == folder:
            return process.pid != os.getpid()
        is_ray_worker = process.name().startswith("ray::")
        return is_ray_worker and any(file.path.startswith(f"{folder}/") for file in process.open_files())
    except (psutil.Error, OSError):  # it has ended, or is somebody else's
        return False


def main(folder: Path) -> None:
    """Kill the Ray processes of a folder once the pipe from the driver closes."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the guardian must outlive the driver
    sys.stdin.buffer.read()
    kill_processes(folder)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
