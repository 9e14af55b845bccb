"""Training steps captured as CUDA graphs: the kernels of a step are recorded once and replayed by a single launch.

A step of a small model has hundreds of kernels of a few microseconds, and launching each from Python takes longer than
running it. The same kernels compute the same numbers.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import fields
from typing import ClassVar

import torch
from torch import Tensor

from trainers.errors import get_first_line
from trainers.packs.training_state import TrainingState
from trainers.tensors.batch import Batch

TrainStep = Callable[[TrainingState, Sequence[Batch]], None]

# Steps that use more than this share of the process's GPU memory stay eager: they keep the GPU busy anyway, and a
# captured graph needs memory of its own in addition to the memory of eager steps.
MAX_MEMORY_SHARE = 0.25
MAX_GRAPHS = 8  # each for batches of other shapes


class CudaGraphStep:
    """`train_step` of a state, replayed as a CUDA graph; the first step with batches of new shapes runs eagerly.

    A step that cannot be captured, because it reads a number on the host, stays eager; `notice` gets the reason.
    """

    has_failed: ClassVar[bool] = False  # in this process: the GPU memory of a failed capture may never be freed

    def __init__(self, train_step: TrainStep, notice: Callable[[str], None]) -> None:
        self._train_step = train_step
        self._notice = notice
        self._has_noticed = False
        self._eager_peak_bytes: dict[
            Hashable, float
        ] = {}  # peak memory of the eager step, by the shapes of its batches
        self.graphs: dict[Hashable, tuple[torch.cuda.CUDAGraph, list[Tensor]]] = {}
        self._state: TrainingState | None = None

    def __call__(self, state: TrainingState, batches: Sequence[Batch]) -> None:
        """Train one step on these batches."""
        # Graphs read and write the tensors of a state, so another state needs other graphs.
        if self._state is not state:
            self._state = state
            self._eager_peak_bytes.clear()
            self.graphs.clear()

        # Run the first step of each shape eagerly, to measure the memory that a graph would need.
        key = tuple(map(_make_shape_key, batches))
        if key not in self._eager_peak_bytes:  # the eager step allocates cached tables and workspaces
            torch.cuda.reset_peak_memory_stats()
            self._train_step(state, batches)
            self._eager_peak_bytes[key] = torch.cuda.max_memory_allocated()
            return
        if key not in self.graphs and not self._capture(key, state, batches):
            self._train_step(state, batches)
            return

        # A graph reads fixed addresses, so the batches are copied there.
        graph, inputs = self.graphs[key]
        torch._foreach_copy_(inputs, [tensor for batch in batches for tensor in batch.tensors()])
        graph.replay()

    def _capture(self, key: Hashable, state: TrainingState, batches: Sequence[Batch]) -> bool:
        """Capture a graph for batches of these shapes without taking a step; return whether that worked."""
        # Steps of large models keep the GPU busy anyway, and every further shape costs memory.
        total = torch.cuda.get_device_properties(state.theta.device).total_memory
        memory = total * torch.cuda.get_per_process_memory_fraction()
        if self.has_failed or self._eager_peak_bytes[key] > MAX_MEMORY_SHARE * memory:
            return False
        if len(self.graphs) == MAX_GRAPHS:
            self._notice_once(f"batches have more than {MAX_GRAPHS} different shapes")
            return False

        # Graphs never run at the same time, so they can share a memory pool.
        copies = [batch.clone() for batch in batches]
        graph = torch.cuda.CUDAGraph()
        first_graph = next((captured for captured, _ in self.graphs.values()), None)
        try:
            with torch.cuda.graph(graph, pool=None if first_graph is None else first_graph.pool()):
                self._train_step(state, copies)
        except RuntimeError as error:
            CudaGraphStep.has_failed = True
            self._notice_once(get_first_line(error))
            return False
        self.graphs[key] = graph, [tensor for batch in copies for tensor in batch.tensors()]
        return True

    def _notice_once(self, reason: str) -> None:
        """Report why steps are not captured, once for this object."""
        if not self._has_noticed:
            self._has_noticed = True
            self._notice(f"CUDA graph: steps are not captured, so slower: {reason}")


def _make_shape_key(batch: Batch) -> Hashable:
    """Return a key that batches of the same graph share: types, shapes and fields that are not tensors."""
    values = [getattr(batch, field.name) for field in fields(batch)]
    return type(batch), tuple(
        (value.shape, value.dtype) if isinstance(value, Tensor) else repr(value) for value in values
    )
