"""SIGINT, SIGTERM and SIGHUP end a sweep between two records, never inside one."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

EXIT_CODE = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_last_words = ""


@contextmanager
def print_last(line: str) -> Iterator[None]:
    """Print this line if `exit_at_once` ends the process in the block."""
    global _last_words
    before, _last_words = _last_words, line
    try:
        yield
    finally:
        _last_words = before


def exit_at_once() -> NoReturn:
    """End the process without waiting for anything, also from a signal handler that has interrupted a print."""
    with suppress(Exception):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    if _last_words:
        with suppress(OSError):
            os.write(1, f"{_last_words}\n".encode())
    os._exit(EXIT_CODE)


class Interrupts:
    """Turns the first of SIGNALS into KeyboardInterrupt, delayed while `held`; a second SIGINT ends the process.

    SIGHUP stays ignored if it was, as under nohup. `ray job stop` sends SIGTERM and three seconds later SIGKILL, so
    nothing is waited for. Blocks may be nested: a signal that came within the inner one counts in the outer one.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._held, self._again = 0, False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interrupts":
        self._before = {number: signal.getsignal(number) for number in SIGNALS}
        self.install()
        return self

    def install(self) -> None:
        """Set our signal handlers (again): `ray.init` puts its own in their place."""
        for number in SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._handle)

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has come, in case a library swallowed the first one."""
        if self.signal is not None:
            raise KeyboardInterrupt

    @contextmanager
    def held(self) -> Iterator[None]:
        """Delay signals until the block has finished."""
        self._held += 1
        came_before = self.signal
        try:
            yield
        finally:
            self._held -= 1
            if self._again and not self._held:
                exit_at_once()
        if not self._held and self.signal is not None and came_before is None:
            raise KeyboardInterrupt

    def __exit__(self, *_: object) -> None:
        outer = getattr(self._before[signal.SIGINT], "__self__", None)
        if isinstance(outer, Interrupts) and self.signal is not None:
            outer.signal = self.signal
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.signal is None:
            self.signal = number
            if not self._held:
                raise KeyboardInterrupt
        elif number == signal.SIGINT:
            if self._again or not self._held:
                exit_at_once()
            self._again = True
