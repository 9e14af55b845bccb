"""A limit of CPU time for code of the user's own, and a notice that it still runs."""

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from orchestrator.text.consoles import make_console, say

NOTICE_SECONDS = 10.0


class TimeLimitExceeded(KeyboardInterrupt):
    """Raised in code that takes too long, like Ctrl-C; no `except Exception` there catches it."""


@contextmanager
def time_limit(action: str, limit: float = math.inf) -> Iterator[None]:
    """Say once, after NOTICE_SECONDS, that a block such as "importing my_tasks" still runs.

    Raises TimeLimitExceeded within the block after `limit` seconds of CPU time, so neither a busy machine nor a
    breakpoint counts. Does nothing outside of the main thread, which alone gets signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    begun, has_noticed = time.thread_time(), False

    def ring(*_: object) -> None:
        nonlocal has_noticed
        if time.thread_time() - begun >= limit:
            raise TimeLimitExceeded(f"it was not done after {limit:g} s of CPU time")
        if not has_noticed:
            say(make_console(stderr=True), f"after {NOTICE_SECONDS:g} s still {action}")
        has_noticed = True

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, NOTICE_SECONDS, NOTICE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
