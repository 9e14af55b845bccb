"""Start a program under a supervisor, and end all of its processes, whichever process is killed.

If the worker or the parent of the supervisor is killed, the supervisor ends all processes. If the supervisor is killed,
its parent ends them. If both are killed, the worker ends them, or without a worker the next attempt before it begins.
Processes without a supervisor are found by LENGTHWISE_LOCK, which is in the environment of every process of a member
(on Linux; elsewhere only the program's process group is known).
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from lengthwise import RANK_VARIABLES
from orchestrator.program.supervisor import SECONDS_TO_END

SUPERVISOR = Path(__file__).with_name("supervisor.py")
_LOCK_VARIABLE = "LENGTHWISE_LOCK"


@dataclass(frozen=True)
class MemberLock:
    """The lock of a member on this node; the supervisor holds it until the last process of the attempt has ended."""

    path: Path
    descriptor: int

    def release(self) -> None:
        """Close the lock in this process; it stays locked as long as a supervisor has it open."""
        os.close(self.descriptor)


def try_lock(path: Path) -> MemberLock | None:
    """Return the lock of a member for a new attempt; None while processes of an earlier attempt are alive.

    Processes that an earlier attempt left without a supervisor are killed. On a file system without locks (some NFS)
    the lock is not exclusive.
    """
    is_first = not path.exists()
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    except OSError:  # a file system without locks
        pass

    # A first attempt leaves nothing behind, so the search through all processes is skipped.
    os.ftruncate(descriptor, 0)  # removes the process id that an earlier supervisor has written
    lock = MemberLock(path.absolute(), descriptor)
    if not is_first and sys.platform == "linux":
        kill_leftovers(lock.path)
    return lock


class Process:
    """A started program with its supervisor."""

    def __init__(self, supervisor: subprocess.Popen[bytes], lock: Path) -> None:
        self.supervisor = supervisor
        self.lock = lock
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code of the program, -N if signal N killed it; None while any of its processes is alive."""
        if self._code is None and (code := self.supervisor.poll()) is not None:
            if code < 0:
                kill_leftovers(self.lock)
            # The supervisor exits with 128 + N if signal N killed the program; -N is the convention of Popen.
            self._code = 128 - code if 128 < code < 128 + signal.NSIG else code
        return self._code

    def terminate(self) -> None:
        """Send SIGTERM to the program's processes, and SIGKILL after its grace time; do nothing if it has ended."""
        self.supervisor.terminate()

    def kill(self) -> None:
        """Kill every process of the program; do nothing if it has ended."""
        self.supervisor.send_signal(signal.SIGUSR1)

    def end(self) -> None:
        """End every process of the program, which has a few seconds to save its state."""
        self.terminate()
        try:
            self.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            self.kill()
            self.wait()

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end and return `poll()`; raises subprocess.TimeoutExpired."""
        self.supervisor.wait(timeout)
        code = self.poll()
        assert code is not None
        return code


def start_program(
    words: Sequence[str], *, env: Mapping[str, str], cwd: Path, log: Path, lock: MemberLock, grace: float
) -> Process:
    """Start a program whose output is appended to `log`; `lock` belongs to its supervisor from now on.

    `env` is its whole environment. It lacks the ranks that an outer srun or mpirun gave to this worker, by which the
    program would take itself for one of several processes.
    """
    variables = {name: value for name, value in env.items() if name not in RANK_VARIABLES} | {
        _LOCK_VARIABLE: str(lock.path)
    }
    arguments = [str(os.getpid()), str(lock.descriptor), str(grace), *words]
    try:
        with log.open("ab") as output:
            supervisor = subprocess.Popen(
                [sys.executable, "-I", "-S", str(SUPERVISOR), *arguments],
                env=variables,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[lock.descriptor],
                start_new_session=True,
            )
    finally:
        lock.release()
    return Process(supervisor, lock.path)


def kill_leftovers(lock: Path, seconds: float = 5.0) -> None:
    """Kill all processes of a member without a supervisor, for at most this many seconds."""
    if sys.platform != "linux":
        # The supervisor has written the process group.
        with contextlib.suppress(OSError, ValueError):
            os.killpg(int(lock.read_text()), signal.SIGKILL)
        return

    # Repeated, because a process may start another one before it is killed. Supervisors come last, because they end the
    # rest if this process is killed meanwhile.
    deadline = time.monotonic() + seconds
    while alive := _find_processes(lock):
        for process_id in [process_id for process_id in alive if not _is_supervisor(process_id)] or alive:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process_id, signal.SIGKILL)
        if time.monotonic() > deadline:
            break
        time.sleep(0.02)


def _is_supervisor(process_id: int) -> bool:
    try:
        return str(SUPERVISOR).encode() in Path(f"/proc/{process_id}/cmdline").read_bytes().split(b"\0")
    except OSError:  # it has ended
        return False


def _find_processes(lock: Path) -> list[int]:
    """Return the ids of all processes with this lock in their environment; Linux only."""
    variable = f"{_LOCK_VARIABLE}={lock}".encode()
    processes = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if variable in (folder / "environ").read_bytes().split(b"\0"):
                    processes.append(int(folder.name))
    return processes
