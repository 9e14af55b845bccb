"""The active members of a pack, and the final states of the finished ones.

A member's bits do not depend on its pack, so active members continue in a smaller pack when others finish.
Shapes: M members of the full pack, A active members.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from trainers.packs.pack import Pack, State


class ActiveMembers:
    """The `pack` and `state` of the active members of a full pack; finished members are on the host.

    A compiled program for one member sums in another order than one for several, so a single active member is trained
    as two copies of itself. Nothing outside of `pack` and `state` has a second copy.
    """

    def __init__(self, full_pack: Pack, state: State, compiled: bool) -> None:
        self.pack, self.state, self.compiled = full_pack, state, compiled
        self.places = list(range(len(full_pack)))  # of the active members, in the full pack
        self._finished_places: list[int] = []
        self._finished: State | None = None
        self._steps = {name: getattr(state, name).cpu().numpy().copy() for name in ("failed_at", "stopped_at")}
        if compiled and len(full_pack) == 1:
            self._select([0])

    def __len__(self) -> int:
        return len(self.places)

    @property
    def pack_rows(self) -> list[int]:
        """The place in the full pack of every row of `pack`, including a second copy."""
        return self.places + self.places[-1:] * (len(self.pack) - len(self.places))

    def member_steps(self, name: str) -> NDArray[np.int64]:
        """Return `failed_at` or `stopped_at` of every member, (M,)."""
        steps: NDArray[np.int64] = self._steps[name].copy()
        steps[self.places] = self.drop_copy(getattr(self.state, name).cpu().numpy())
        return steps

    def drop_copy(self, values: NDArray[np.generic]) -> NDArray[np.generic]:
        """Return values of `pack` without those of a second copy, (A, ...)."""
        return values[: len(self.places)]

    def remove(self, places: Sequence[int]) -> None:
        """Finish the active members at these places of the full pack; others are ignored."""
        finishing = [index for index in self.places if index in set(places)]
        if not finishing:
            return
        self._steps = {name: self.member_steps(name) for name in self._steps}
        state = self.state.select([self.places.index(index) for index in finishing]).to("cpu")
        self._finished = state if self._finished is None else self._finished.concatenate(state)
        self._finished_places += finishing
        active = [slot for slot, index in enumerate(self.places) if index not in set(finishing)]
        self.places = [self.places[slot] for slot in active]
        self._select(active)

    def _select(self, rows: list[int]) -> None:
        """Train on with these rows of `pack`, twice a single one if the step is compiled."""
        rows = rows * 2 if len(rows) == 1 and self.compiled else rows
        self.state = self.state.select(rows)
        if rows:
            self.pack = self.pack.select(rows)

    def full_state(self) -> State:
        """Return the state of every member in the order of the full pack; on the host once some have finished."""
        active = self.state if len(self.pack) == len(self.places) else self.state.select(range(len(self.places)))
        if self._finished is None:
            return active
        both = self._finished.concatenate(active.to("cpu"))
        order = np.argsort([*self._finished_places, *self.places])
        return both.select(order.tolist())

    def assign(self, name: str, values_A: NDArray[np.int64]) -> None:
        """Write `stopped_at` or `stage` of the active members."""
        tensor: torch.Tensor = getattr(self.state, name)
        tensor.copy_(torch.from_numpy(values_A))
