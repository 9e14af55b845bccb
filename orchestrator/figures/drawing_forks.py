"""Draws figures in forks of this process, each taking the next figure that no other has taken."""

import os
import threading
from collections.abc import Sequence

from orchestrator.figures.drawing import FigureFile

FEWEST = 3  # figures for which forks pay
_BYTES = 4  # of a figure's number in the pipe
_MOST = 4000  # numbers, which every system's pipes hold


class DrawingForks:
    """Begins to draw `drawings` in `forks` processes; `finish` waits for them.

    A process with threads is not forked; there, and with fewer than two forks, `finish` draws everything.
    """

    def __init__(self, drawings: Sequence[FigureFile], forks: int) -> None:
        self._drawings, self._children = drawings, list[int]()
        if forks < 2 or len(drawings) < FEWEST or threading.active_count() > 1:
            return
        numbers, end = os.pipe()
        os.write(end, b"".join(number.to_bytes(_BYTES, "big") for number in range(min(len(drawings), _MOST))))
        os.close(end)
        parent = os.getpid()
        for _ in range(min(forks, len(drawings))):
            child = os.fork()
            if child == 0:
                try:
                    while os.getppid() == parent and (number := os.read(numbers, _BYTES)):
                        drawings[int.from_bytes(number, "big")].make()
                finally:
                    os._exit(0)  # `finish` draws missing figures, and raises the errors of drawing
            self._children.append(child)
        os.close(numbers)

    def finish(self) -> None:
        """Return when every figure is drawn; draws here what a fork has not. Raises what drawing raises."""
        while self._children:
            os.waitpid(self._children.pop(), 0)
        for drawing in self._drawings:
            if not drawing.is_current():
                drawing.make()
