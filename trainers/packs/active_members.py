"""The active members of a pack, and the final states of the finished ones.

A member's bits do not depend on its pack, so active members continue in a smaller pack when others finish.
Shapes: M members of the full pack, A active members.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState


class ActiveMembers:
    """The `pack` and `state` of the active members of a full pack; the states of finished members are on the host.

    A program compiled for one member sums in another order than a program for several, so a single active member is
    duplicated as two rows of `pack` and `state`; all other attributes and all results contain it once.
    """

    def __init__(self, full_pack: Pack, state: TrainingState, compiled: bool) -> None:
        self.pack = full_pack
        self.state = state
        self.compiled = compiled
        self.indices = list(range(len(full_pack)))  # indices of the active members in the full pack
        self._finished_indices: list[int] = []
        self._finished_state: TrainingState | None = None
        self._steps = {name: getattr(state, name).cpu().numpy().copy() for name in ("failed_at", "stopped_at")}
        if compiled and len(full_pack) == 1:
            self._select([0])

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def pack_rows(self) -> list[int]:
        """The index in the full pack of every row of `pack`, including the copy of a single member."""
        return self.indices + self.indices[-1:] * (len(self.pack) - len(self.indices))

    def read_event_steps(self, name: str) -> NDArray[np.int64]:
        """Return `failed_at` or `stopped_at` of every member of the full pack, (M,)."""
        steps: NDArray[np.int64] = self._steps[name].copy()
        steps[self.indices] = self.drop_copy(getattr(self.state, name).cpu().numpy())
        return steps

    def drop_copy(self, values: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return values of the rows of `pack` without the copy of a single member, (A, ...)."""
        return values[: len(self.indices)]

    def remove(self, indices: Sequence[int]) -> None:
        """Move the active members with these indices in the full pack to the finished ones; ignore finished indices."""
        finishing = [index for index in self.indices if index in set(indices)]
        if not finishing:
            return

        # Finished members move to the host: their state is only read again for checkpoints and final weights.
        self._steps = {name: self.read_event_steps(name) for name in self._steps}
        state = self.state.select([self.indices.index(index) for index in finishing]).to("cpu")
        self._finished_state = state if self._finished_state is None else self._finished_state.concatenate(state)
        self._finished_indices += finishing

        active_rows = [row for row, index in enumerate(self.indices) if index not in set(finishing)]
        self.indices = [self.indices[row] for row in active_rows]
        self._select(active_rows)

    def _select(self, rows: list[int]) -> None:
        """Keep these rows of `pack` and `state`; repeat a single row if the step is compiled.

        Without rows `pack` stays as it is, because a pack has at least one member.
        """
        rows = rows * 2 if len(rows) == 1 and self.compiled else rows
        self.state = self.state.select(rows)
        if rows:
            self.pack = self.pack.select(rows)

    def collect_full_state(self) -> TrainingState:
        """Return the state of every member in the order of the full pack, on the host once members have finished."""
        # Drop the copy of a single member.
        active_state = self.state
        if len(self.pack) > len(self.indices):
            active_state = self.state.select(range(len(self.indices)))
        if self._finished_state is None:
            return active_state

        # Finished members come first here, so sort by the indices of the full pack.
        state = self._finished_state.concatenate(active_state.to("cpu"))
        order = np.argsort([*self._finished_indices, *self.indices])
        return state.select(order.tolist())

    def assign(self, name: str, values_A: NDArray[np.int64]) -> None:
        """Overwrite the field `name` of the state, `stopped_at` or `stage`, for the active members."""
        tensor: torch.Tensor = getattr(self.state, name)
        tensor.copy_(torch.from_numpy(values_A))
