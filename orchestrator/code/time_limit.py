"""Limit the CPU time of the user's code, and print a notice if it runs for long."""

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator.text.consoles import make_console, say

NOTICE_SECONDS = 10.0


class TimeLimitExceeded(KeyboardInterrupt):
    """The user's code took too long; as with Ctrl-C, `except Exception` does not catch it."""


@contextmanager
def time_limit(action: str, limit: float = math.inf) -> Iterator[None]:
    """Print a notice after NOTICE_SECONDS if the block, an `action` such as "importing my_tasks", still runs.

    An alarm every NOTICE_SECONDS raises TimeLimitExceeded in the block once it has used `limit` seconds of CPU time, so
    that busy machines and breakpoints do not count. Does nothing outside of the main thread, which alone gets signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    start_seconds = time.thread_time()
    has_noticed = False

    def on_alarm(*_: object) -> None:
        nonlocal has_noticed
        if time.thread_time() - start_seconds >= limit:
            raise TimeLimitExceeded(f"not finished after {limit:g} s of CPU time")
        if not has_noticed:
            say(make_console(stderr=True), f"after {NOTICE_SECONDS:g} s still {action}")
        has_noticed = True

    # The timer rings by the clock; the handler compares CPU time.
    previous_handler = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, NOTICE_SECONDS, NOTICE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous_handler)
