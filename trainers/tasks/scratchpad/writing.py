"""What writing the answers of a test costs: how many tokens pass through a model, and among how many each of them.

It is counted as `trainers.evaluation.generate` passes them, with every token of every state written: no row ends early.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from trainers.tasks.scratchpad.layout import Widths

if TYPE_CHECKING:
    from trainers.tasks.scratchpad.scratchpad_task import ScratchpadTask

Passed = Iterator[tuple[int, int]]  # tokens, and among how many each of them passes


def passes(task: ScratchpadTask, *, by_state: bool, keeps: bool, cost: Callable[[int], float]) -> float:
    """What the tests of all lengths cost in passes over their rows: one behind the true tokens, the rest to write.

    keeps: whether keys are kept of what was passed. cost: of a token in a pass over so many. A prompt that is longer
    than its question is taken for the question alone, so that without kept keys a few tokens more are counted.
    """
    written = whole = 0.0
    for length in task.lengths:
        widths = task.widths(length)
        row = (widths.masked if by_state else widths.full) - 1
        whole += row * cost(row)
        found = _by_state(widths, keeps) if by_state else _in_one(widths, keeps)
        written += sum(tokens * cost(among) for tokens, among in found)
    return 1.0 + written / whole


def _by_state(widths: Widths, keeps: bool) -> Passed:
    """With kept keys each token but a state's last once, and again, as many as the longest state, before the next one.

    Without, what all states see and two states for every token.
    """
    states, width = len(widths.states), max(widths.states)
    among = widths.shared + min(states, 2) * width - 1
    again = (states - 1) * (2 * width - 1)
    calls = widths.start + states * width
    yield (widths.shared + width - 1 + again if keeps else calls * among), among


def _in_one(widths: Widths, keeps: bool) -> Passed:
    """With kept keys each token but the last once; without, for every token all that come before it."""
    if keeps:
        yield widths.full - 1, widths.full - 1
    else:
        yield from ((before, before) for before in range(max(widths.question, 1), widths.full))
