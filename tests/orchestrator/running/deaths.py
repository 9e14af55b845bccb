"""The death of workers, the same under every scheduler that has any."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from orchestrator.interface.work import PackWork
from tests.orchestrator.running.ledgers import records, wait_for

INLINE = ("--set", "resources.scheduler=inline")


def empty_work(folder: Path, **more: Any) -> str:
    """The work of a pack without members, which raises as soon as it trains."""
    limits: dict[str, Any] = {"cpus": 1, "gpus": 0, "heartbeat_timeout": 60, "grace_seconds": 1}
    fields = {"members": [], "member_ids": [], "pack_id": "p1", "folder": str(folder), **limits, **more}
    return PackWork(**fields).encode()


Find = Callable[[str, int], psutil.Process | None]


class RecordingDriver:
    """A driver with some packs of the same work; records the calls of workers in `calls`."""

    def __init__(self, *pack_ids: str, work: str = "") -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.packs = [(pack_id, work) for pack_id in pack_ids]

    def take_next_pack(self) -> tuple[str, str] | None:
        return self.packs.pop(0) if self.packs else None

    def has_ended(self) -> bool:
        return not self.packs

    def tick(self) -> None: ...

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *what: self.calls.append((name, *what))


def kill(driver: subprocess.Popen[str]) -> None:
    """Kill a driver as the kernel does when memory runs out, and wait for its end."""
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()


def finish(driver: subprocess.Popen[str], exit_code: int = 0) -> str:
    """Wait for the end of a driver with this exit code; return what it has printed."""
    out, err = driver.communicate()
    assert driver.returncode == exit_code, out + err
    return out


def with_words(driver: int, words: str) -> list[psutil.Process]:
    """The processes below a driver that have these words in their command."""
    processes = []
    for process in psutil.Process(driver).children(recursive=True):
        with suppress(psutil.Error):  # it ended as it was looked at
            if words in " ".join(process.cmdline()):
                processes.append(process)
    return processes


def holding(pack_id: str, processes: Iterable[psutil.Process]) -> psutil.Process | None:
    """The one that has the pack in hand: its watchdog keeps a file of that name open."""
    for process in processes:
        with suppress(psutil.Error):
            if any(Path(file.path).name == f"{pack_id}.stuck.txt" for file in process.open_files()):
                return process
    return None


def kill_worker(pack_id: str, worker_with: Find, folder: Path, driver: subprocess.Popen[str]) -> None:
    """Kill whichever worker has the pack until the driver has recorded it: a death before it begins does not count."""

    def attempts() -> int:
        return sum(record.fields["pack_id"] == pack_id for record in records(folder, "attempt"))

    def is_recorded() -> bool:
        worker = worker_with(pack_id, driver.pid)
        if attempts() > before:
            return True
        if worker is not None:
            worker.kill()
        return False

    before = attempts()
    wait_for(is_recorded, driver)
