"""SIGINT, SIGTERM and SIGHUP end a sweep between two records, never inside one."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, NoReturn

INTERRUPTED_EXIT_CODE = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_last_line = ""


@contextmanager
def set_exit_message(line: str) -> Iterator[None]:
    """Let `exit_at_once` print this line if it ends the process in the block."""
    # Sweeps may be nested, so the line of the outer one is restored.
    global _last_line
    previous, _last_line = _last_line, line
    try:
        yield
    finally:
        _last_line = previous


def exit_at_once() -> NoReturn:
    """End the process without waiting for anything, also from a signal handler that has interrupted a print."""
    # The print that was interrupted may hold the lock of its stream, so the line is written past it.
    with suppress(Exception):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    if _last_line:
        with suppress(OSError):
            os.write(1, f"{_last_line}\n".encode())
    os._exit(INTERRUPTED_EXIT_CODE)


class Interrupts:
    """Turns the first of SIGNALS into KeyboardInterrupt, delayed by `hold_signals`; a second SIGINT ends the process.

    A SIGHUP that was ignored before, as under nohup, stays ignored. `ray job stop` sends SIGKILL three seconds after
    SIGTERM, so there is no time to wait. Contexts may be nested; a signal in the inner context also reaches the outer
    one.
    """

    def __init__(self) -> None:
        self.signal: int | None = None
        self._nested_holds = 0
        self._has_second_sigint = False
        self._previous_handlers: dict[int, Any] = {}

    def __enter__(self) -> "Interrupts":
        self._previous_handlers = {number: signal.getsignal(number) for number in SIGNALS}
        self.install_handlers()
        return self

    def install_handlers(self) -> None:
        """Set our signal handlers, also again after `ray.init`, which replaces them."""
        for number in SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._handle)

    def raise_if_interrupted(self) -> None:
        """Raise KeyboardInterrupt if a signal has come, in case a library swallowed the first one."""
        if self.signal is not None:
            raise KeyboardInterrupt

    @contextmanager
    def hold_signals(self) -> Iterator[None]:
        """Delay signals until the block has finished."""
        # Only a signal that came inside the block is raised at its end, and only by the outermost block.
        self._nested_holds += 1
        signal_before = self.signal
        try:
            yield
        finally:
            self._nested_holds -= 1
            if self._has_second_sigint and not self._nested_holds:
                exit_at_once()
        if not self._nested_holds and self.signal is not None and signal_before is None:
            raise KeyboardInterrupt

    def __exit__(self, *_: object) -> None:
        # An outer context has to end, too; its handlers have not seen the signal.
        outer = getattr(self._previous_handlers[signal.SIGINT], "__self__", None)
        if isinstance(outer, Interrupts) and self.signal is not None:
            outer.signal = self.signal
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        """Raise KeyboardInterrupt at the first signal; end the process at a second SIGINT. Both wait while held."""
        # A handler may run between any two instructions, so a held signal is only noted here.
        if self.signal is None:
            self.signal = number
            if not self._nested_holds:
                raise KeyboardInterrupt
        elif number == signal.SIGINT:
            if self._has_second_sigint or not self._nested_holds:
                exit_at_once()
            self._has_second_sigint = True
