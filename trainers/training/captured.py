"""A training step on a GPU as one launch: its kernels are recorded once, as a CUDA graph, and replayed for each batch.

A step of small models is hundreds of kernels of microseconds, and to start each from Python takes longer than it runs.
They are the same kernels on the same numbers: nothing that is computed changes.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor

from trainers.packs.pack import State
from trainers.tensors.batch import Batch

Learn = Callable[[State, Sequence[Batch]], None]

LARGE = 0.25  # of the GPU's memory: a step that needs so much keeps the GPU busy, and what is recorded keeps its memory
MOST = 8  # shapes of batches that are recorded


@dataclass
class _Outcome:
    """Whether this process has failed to record a step: what that took of the GPU's memory may never be given back."""

    failed: bool = False


_outcome = _Outcome()


class Captured:
    """`learn` for one state, which it changes in place. The first step with batches of some shapes runs as it is.

    What cannot be recorded, such as code that looks at a number on the host, goes on as it is, which `notice` is told.
    """

    def __init__(self, learn: Learn, notice: Callable[[str], None]) -> None:
        self._learn, self._notice, self._told = learn, notice, False
        self._peaks: dict[Hashable, float] = {}  # of the memory in the first step, by the shapes of its batches
        self._recorded: dict[Hashable, tuple[torch.cuda.CUDAGraph, list[Tensor]]] = {}
        self._state: State | None = None

    @property
    def records(self) -> int:
        """For how many shapes of batches steps are recorded."""
        return len(self._recorded)

    def __call__(self, state: State, batches: Sequence[Batch]) -> None:
        """One step on these batches."""
        if self._state is not state:
            self._state = state
            self._peaks.clear()
            self._recorded.clear()
        key = tuple(_shape(batch) for batch in batches)
        if key not in self._peaks:  # this step makes what is made once: tables, libraries, workspaces
            torch.cuda.reset_peak_memory_stats()
            self._learn(state, batches)
            self._peaks[key] = torch.cuda.max_memory_allocated()
            return
        if key not in self._recorded and not self._record(key, state, batches):
            self._learn(state, batches)
            return
        graph, inputs = self._recorded[key]
        torch._foreach_copy_(inputs, [tensor for batch in batches for tensor in batch.tensors()])
        graph.replay()

    def _record(self, key: Hashable, state: State, batches: Sequence[Batch]) -> bool:
        """Whether there is a record for batches of these shapes now, made without taking a step."""
        whole = torch.cuda.get_device_properties(state.theta.device).total_memory
        if _outcome.failed or self._peaks[key] > LARGE * whole:
            return False
        if len(self._recorded) == MOST:
            self._tell(f"batches come in more than {MOST} shapes")
            return False
        own = [batch.copied() for batch in batches]
        graph, first = torch.cuda.CUDAGraph(), next(iter(self._recorded.values()), None)
        try:
            with torch.cuda.graph(graph, pool=first and first[0].pool()):
                self._learn(state, own)
        except RuntimeError as error:
            _outcome.failed = True
            self._tell(str(error).splitlines()[0])
            return False
        self._recorded[key] = graph, [tensor for batch in own for tensor in batch.tensors()]
        return True

    def _tell(self, why: str) -> None:
        if not self._told:
            self._told = True
            self._notice(f"steps are not recorded as a CUDA graph, and slower for it: {why}")


def _shape(batch: Batch) -> Hashable:
    """What batches that one record serves have in common: all but the numbers in their tensors."""
    return type(batch), tuple(_known(getattr(batch, item.name)) for item in fields(batch))


def _known(value: Any) -> Hashable:
    return (value.shape, value.dtype) if isinstance(value, Tensor) else repr(value)
