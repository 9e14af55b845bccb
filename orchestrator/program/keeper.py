"""Start a program, and end every process below it once the program, or the worker that started it, has ended.

    python -I -S keeper.py WORKER_PID LOCK_DESCRIPTOR GRACE_SECONDS WORD...

It imports little of the standard library, so that it starts quickly. The program has a session of its own and dies with
the keeper. On Linux the keeper is the subreaper of all processes below it, so that it knows those with sessions of
their own, too, such as the ranks of torchrun; elsewhere it knows the process group of the program. It holds the lock
until the last of them has ended. It is a child of the process that the worker starts, because a worker of Ray that ends
kills its own children, and nothing below them; that process kills what a killed keeper leaves. SIGTERM is forwarded to
the program, which has GRACE_SECONDS to end; SIGUSR1 kills. The exit status is that of the program, 128 + N if signal N
killed it, 127 if it could not be started.
"""

import ctypes
import os
import select
import signal
import sys
import time

LINUX = sys.platform == "linux"
SECONDS_TO_END = 3.0  # for processes whose program or worker has ended
_POLL_SECONDS = 0.2  # at the worker, whose end sends no signal
_WORKER_ENDED = signal.SIGUSR2  # sent to the keeper
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def start_keeper(worker: int, lock: int, grace: float, words: list[str]) -> int:
    """Run `keep` in a child process and return its exit status; signals the child when the worker has ended.

    If the keeper is killed, kill all processes below it.
    """
    # Fork the keeper; its orphans become children of this process.
    parent = os.getpid()
    if LINUX:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)  # of what a killed keeper leaves
    keeper = os.fork()
    if keeper == 0:
        os._exit(keep(parent, lock, grace, words))

    # Forward signals, and look regularly whether the worker is alive.
    def check_worker(number: int, frame: object) -> None:
        if os.getppid() != worker:
            _send_signal(keeper, _WORKER_ENDED)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, lambda number, _: _send_signal(keeper, number))
    signal.signal(signal.SIGALRM, check_worker)
    signal.setitimer(signal.ITIMER_REAL, _POLL_SECONDS, _POLL_SECONDS)

    # Wait for it; if it was killed, kill all that it left.
    code = os.waitstatus_to_exitcode(os.waitpid(keeper, 0)[1])
    if code < 0:
        while LINUX and _has_children():
            _signal_all(keeper, signal.SIGKILL)
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    return code


def keep(parent: int, lock: int, grace: float, words: list[str]) -> int:
    """Run the program until it and every process below it have ended; return the exit status.

    The program is ended when the parent process, or the worker, ends.
    """
    # Each signal wakes the loop through a pipe.
    wake, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    received: set[int] = set()
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, _WORKER_ENDED):
        signal.signal(number, lambda number, _: received.add(number))
    if LINUX:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    os.set_inheritable(lock, False)
    program = _start_program(words)
    os.pwrite(lock, b"%d\n" % program, 0)

    status: int | None = None
    stopping = False  # whether the program was asked to end
    ending = False  # whether everything below was asked to end
    deadline = float("inf")  # when all that is left is killed
    while True:
        # Reap: without children there are no descendants either, because orphans become children of a subreaper.
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                status = ended[1] if ended[0] == program else status
        except ChildProcessError:
            break

        # Forward a request to end; end what has outlived the program or the worker.
        now, worker_ended = time.monotonic(), os.getppid() != parent or _WORKER_ENDED in received
        if not stopping and received & {signal.SIGTERM, signal.SIGINT, signal.SIGHUP} and status is None:
            stopping, deadline = True, now + grace
            os.kill(program, signal.SIGTERM)
        if not ending and (worker_ended or status is not None):
            ending = True
            _signal_all(program, signal.SIGTERM)
            deadline = min(deadline, now + SECONDS_TO_END) if worker_ended or not stopping else deadline
        if worker_ended:
            deadline = min(deadline, now + SECONDS_TO_END)
        if now >= deadline or signal.SIGUSR1 in received:
            _signal_all(program, signal.SIGKILL)
        if select.select([wake], [], [], min(_POLL_SECONDS, max(0.01, deadline - now)))[0]:
            os.read(wake, 512)

    if not LINUX:
        _signal_all(program, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(status or 0)
    return code if code >= 0 else 128 - code


def _start_program(words: list[str]) -> int:
    """Start the program in a session of its own and return its process id."""
    keeper = os.getpid()
    program = os.fork()
    if program:
        return program
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        if LINUX:
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == keeper:
            os.execvp(words[0], words)
    except OSError as error:
        os.write(2, f"{words[0]}: cannot be started: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _signal_all(program: int, number: int) -> None:
    """Send a signal to every process below the keeper; without /proc to the program's group."""
    for process in _list_descendants() if LINUX else [-program]:
        _send_signal(process, number)


def _send_signal(process: int, number: int) -> None:
    """Send a signal to a process that may have ended."""
    try:  # noqa: SIM105 - contextlib takes long to import
        os.kill(process, number)
    except (ProcessLookupError, PermissionError):
        pass


def _has_children() -> bool:
    """Reap children that have ended; return whether others are left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _list_descendants() -> list[int]:
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - pathlib, too
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(parent, []).append(int(name))
    below = list(children.get(os.getpid(), []))
    for process in below:
        below += children.get(process, [])
    return below


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    # At once: while Python ends by itself, the next check would kill this process.
    os._exit(start_keeper(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]))
