"""SIGINT and SIGTERM end a sweep between two records, never inside one."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

EXIT_CODE = 130


class Interrupts:
    """Turns the first SIGINT or SIGTERM into KeyboardInterrupt, put off while `held`; a second SIGINT ends at once.

    `ray job stop` sends SIGTERM and three seconds later SIGKILL, so nothing is waited for.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._held = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> "Interrupts":
        self._before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        self.install()
        return self

    def install(self) -> None:
        """Set our signal handlers (again): `ray.init` puts its own in their place."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._handle)

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has come, in case a library swallowed the first one."""
        if self.signal is not None:
            raise KeyboardInterrupt

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let the block finish before a signal takes effect."""
        self._held += 1
        came_before = self.signal
        try:
            yield
        finally:
            self._held -= 1
        if not self._held and self.signal is not None and came_before is None:
            raise KeyboardInterrupt

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            if number == signal.SIGINT:
                os._exit(EXIT_CODE)
            return
        self.signal = number
        if not self._held:
            raise KeyboardInterrupt
