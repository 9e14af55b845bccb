"""Figures drawn by several processes at once: forks of this one, each taking the next figure that nobody has."""

import os
import threading
from collections.abc import Callable, Sequence

from orchestrator.figures.drawing import Drawing

FEWEST = 3  # figures for which a fork is worth its while
_TOKEN = 4  # bytes
_MOST_TOKENS = 8000  # a pipe holds 16,000


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class SideBySide:
    """Draws `drawings` with `forks` processes beside this one, from now on; `finish` takes part and waits for them.

    A process with threads is not forked: there everything is drawn by `finish`. So is what a fork that died left.
    """

    def __init__(self, drawings: Sequence[Drawing], forks: int) -> None:
        self._drawings, self._children = drawings, list[int]()
        self._share = -(-len(drawings) // _MOST_TOKENS)
        self._tokens = -1
        if forks < 1 or len(drawings) < FEWEST or threading.active_count() > 1:
            return
        self._tokens, tokens = os.pipe()
        starts = range(0, len(drawings), self._share)
        os.write(tokens, b"".join(start.to_bytes(_TOKEN, "big") for start in starts))
        os.close(tokens)
        parent = os.getpid()
        for _ in range(min(forks, len(drawings) - 1)):
            child = os.fork()
            if child == 0:
                try:
                    self._take_part(parent)
                finally:
                    os._exit(0)  # what is not drawn is drawn by `finish`, which also says why it cannot be
            self._children.append(child)

    def finish(self, drawn_one: Callable[[], None] = lambda: None) -> None:
        """Return when every figure is drawn; raises what drawing raises. `drawn_one` is called after each one here."""
        if self._tokens >= 0:
            self._take_part(os.getppid(), drawn_one)
            os.close(self._tokens)
            self._tokens = -1
        while self._children:
            os.waitpid(self._children.pop(), 0)
        for drawing in self._drawings:
            if not drawing.is_there():
                drawing.make()
                drawn_one()

    def _take_part(self, parent: int, drawn_one: Callable[[], None] = lambda: None) -> None:
        while os.getppid() == parent and (token := os.read(self._tokens, _TOKEN)):
            start = int.from_bytes(token, "big")
            for drawing in self._drawings[start : start + self._share]:
                drawing.make()
                drawn_one()
