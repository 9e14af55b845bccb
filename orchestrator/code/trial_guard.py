"""What guards this process while it imports or tries code of the user's own: a time limit, and its standard streams."""

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from orchestrator.consoles import make_console, say
from orchestrator.errors import UserError

NOTICE_SECONDS, LIMIT_SECONDS = 10.0, 300.0
IDLE_SHARE = 0.01  # of the CPU time of a thread; below it, it waits
DEBUGGERS = frozenset({"bdb", "pdb", "code", "IPython", "pydevd", "_pydevd_bundle", "debugpy"})  # ipdb, pudb are bdb's
STREAMS = ("stdin", "stdout", "stderr")


class TimeLimitExceeded(KeyboardInterrupt):
    """Raised in code that takes too long, like Ctrl-C; no `except Exception` there keeps it."""


@contextmanager
def guarded_trial(what: str, limit: float | None = None) -> Iterator[None]:
    """Guard a block such as "importing my_tasks": say after NOTICE_SECONDS that it still runs.

    Raises TimeLimitExceeded within the block after `limit` seconds of CPU time, by default LIMIT_SECONDS, or after as
    many of waiting, however busy the machine is (in the main thread, and not while a debugger holds it). Raises
    UserError when the block has closed a standard stream: the next file that is opened would take its place.
    """
    copies = {number: os.dup(number) for number in range(len(STREAMS)) if _is_open(number)}
    closed = set[str]()
    try:
        with _time_limit(what, LIMIT_SECONDS if limit is None else limit):
            yield
    finally:
        for number, copy in copies.items():
            if not _is_open(number):
                os.dup2(copy, number)
                closed.add(STREAMS[number])
            os.close(copy)
        for name in STREAMS:
            if getattr(getattr(sys, name), "closed", False):
                setattr(sys, name, getattr(sys, f"__{name}__"))
                closed.add(name)
    if closed:
        raise UserError(f"{what}: your code closes {', '.join(sorted(closed))}, which lengthwise needs; leave it open")


@contextmanager
def _time_limit(what: str, limit: float) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # which gets no signals
        yield
        return
    noticed, waited, begun = False, 0.0, time.thread_time()
    last = begun

    def ring(number: int, frame: FrameType | None) -> None:
        nonlocal noticed, waited, last
        if in_debugger(frame):
            return
        now = time.thread_time()
        waited += NOTICE_SECONDS if now - last < IDLE_SHARE * NOTICE_SECONDS else 0.0
        last = now
        for seconds, kind in ((now - begun, "CPU time"), (waited, "waiting")):
            if seconds >= limit:
                raise TimeLimitExceeded(f"it was not done after {limit:g} s of {kind}")
        if not noticed:
            patience = f"it has run for {NOTICE_SECONDS:g} s and is given up after {limit:g} s of CPU time"
            say(make_console(stderr=True), f"still {what}: {patience}")
        noticed = True

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, NOTICE_SECONDS, NOTICE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def in_debugger(frame: FrameType | None) -> bool:
    """Whether a frame was called by a debugger, as at a breakpoint."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] in DEBUGGERS:
            return True
        frame = frame.f_back
    return False


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True
