"""Start a program, and end every process below it once the program, or the worker that started it, has ended.

    python -I -S supervisor.py WORKER_PID LOCK_DESCRIPTOR GRACE_SECONDS WORD...

It imports little of the standard library, so that it starts quickly. The program has a session of its own and dies with
the supervisor. On Linux the supervisor is the subreaper of all processes below it, so it also finds processes with
sessions of their own, such as the ranks of torchrun; elsewhere it knows only the process group of the program. It holds
the lock until the last of them has ended.

The supervisor is a child of the process that the worker starts, because an ending worker of Ray kills its own children,
but nothing below them. If the supervisor is killed, that process kills all processes below it. SIGTERM is forwarded to
the program, which has GRACE_SECONDS to end; SIGUSR1 kills it. The exit status is the program's, 128 + N if signal
N killed it, 127 if it could not be started.
"""

import ctypes
import os
import select
import signal
import sys
import time

LINUX = sys.platform == "linux"
SECONDS_TO_END = 3.0  # between SIGTERM and SIGKILL, for processes whose program or worker has ended
_POLL_SECONDS = 0.2  # between checks of the worker, whose end sends no signal
_WORKER_ENDED = signal.SIGUSR2  # sent to the supervisor
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def start_supervisor(worker: int, lock: int, grace: float, words: list[str]) -> int:
    """Run `supervise` in a child process, the supervisor, and return its exit status.

    Signals it when the worker has ended. If the supervisor is killed, kills all processes below it.
    """
    # As a subreaper, this process becomes the parent of all that a killed supervisor leaves.
    parent = os.getpid()
    if LINUX:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    supervisor = os.fork()
    if supervisor == 0:
        os._exit(supervise(parent, lock, grace, words))

    # Another parent than the worker means that the worker has ended; a timer checks this, because Linux sends no signal
    # for it.
    def check_worker(number: int, frame: object) -> None:
        if os.getppid() != worker:
            _send_signal(supervisor, _WORKER_ENDED)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(number, lambda number, _: _send_signal(supervisor, number))
    signal.signal(signal.SIGALRM, check_worker)
    signal.setitimer(signal.ITIMER_REAL, _POLL_SECONDS, _POLL_SECONDS)

    # The supervisor exits by itself except if it was killed; then this process ends the same way.
    code = os.waitstatus_to_exitcode(os.waitpid(supervisor, 0)[1])
    if code < 0:
        while LINUX and _has_children():
            _signal_all(supervisor, signal.SIGKILL)
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGKILL)
    return code


def supervise(parent: int, lock: int, grace: float, words: list[str]) -> int:
    """Run the program until it and every process below it have ended; return the exit status.

    The program is ended when the parent process, or the worker, ends.
    """
    # The program must not inherit the lock: a process of it could hold the lock longer than the supervisor.
    wakeup_pipe, received = _watch_signals()
    if LINUX:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    os.set_inheritable(lock, False)
    program = _start_program(words)
    os.pwrite(lock, b"%d\n" % program, 0)

    # Wait for processes that end, and for signals, until no process is left.
    status: int | None = None
    is_stopping = False  # whether the program was asked to end
    is_ending = False  # whether everything below was asked to end
    deadline = float("inf")  # when everything below is killed
    while True:
        # Without children there are no descendants either, because orphans become children of a subreaper.
        try:
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                status = ended[1] if ended[0] == program else status
        except ChildProcessError:
            break

        # A request to end gives the program its grace time; processes that outlive it or the worker get less.
        now = time.monotonic()
        worker_ended = os.getppid() != parent or _WORKER_ENDED in received
        if not is_stopping and received & {signal.SIGTERM, signal.SIGINT, signal.SIGHUP} and status is None:
            is_stopping = True
            deadline = now + grace
            os.kill(program, signal.SIGTERM)
        if not is_ending and (worker_ended or status is not None):
            is_ending = True
            _signal_all(program, signal.SIGTERM)
            deadline = min(deadline, now + SECONDS_TO_END) if worker_ended or not is_stopping else deadline

        # Kill what remains at the deadline; then sleep until a signal or the next check.
        if worker_ended:
            deadline = min(deadline, now + SECONDS_TO_END)
        if now >= deadline or signal.SIGUSR1 in received:
            _signal_all(program, signal.SIGKILL)
        if select.select([wakeup_pipe], [], [], min(_POLL_SECONDS, max(0.01, deadline - now)))[0]:
            os.read(wakeup_pipe, 512)

    # Without a subreaper orphans are no children, so some may be left.
    if not LINUX:
        _signal_all(program, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(status or 0)
    return code if code >= 0 else 128 - code


def _watch_signals() -> tuple[int, set[int]]:
    """Return a pipe that becomes readable at each signal, and the set of received signals, which grows."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    received: set[int] = set()
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, _WORKER_ENDED):
        signal.signal(number, lambda number, _: received.add(number))
    return read_end, received


def _start_program(words: list[str]) -> int:
    """Start the program in a session of its own and return its process id."""
    supervisor = os.getpid()
    program = os.fork()
    if program:
        return program

    # The program gets default signals, because Python ignores some. PR_SET_PDEATHSIG has no effect if the supervisor
    # has died already, so the parent is compared after it.
    try:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        if LINUX:
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == supervisor:
            os.execvp(words[0], words)
    except OSError as error:
        os.write(2, f"{words[0]}: cannot be started: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _signal_all(program: int, number: int) -> None:
    """Send a signal to every process below this one; on systems without /proc to the program's group."""
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
    """Return the ids of all processes below this one, from /proc."""
    # The parent is the second field after the name in parentheses, which may itself have spaces and parentheses.
    children: dict[int, list[int]] = {}
    for name in filter(str.isdigit, os.listdir("/proc")):  # noqa: PTH208 - pathlib, too
        try:
            with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(parent, []).append(int(name))
    descendants = list(children.get(os.getpid(), []))
    for process in descendants:  # grows while it is read
        descendants += children.get(process, [])
    return descendants


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    # os._exit, because a signal of the timer would kill this process while Python shuts down.
    os._exit(start_supervisor(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]))
