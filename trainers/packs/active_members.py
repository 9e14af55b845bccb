"""Which members of a pack are still trained, and what those that left it were when they left.

A member's bits do not depend on its pack, so the others go on in a smaller one.
Shapes: M members of the whole pack, G of those that go on.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from trainers.packs.pack import Pack, State


class Going:
    """The members of a `whole` pack that go on: their `pack` and `state`. Those that left are kept on the host.

    A compiled program of one member reduces in another order than one of several: a last one goes on with a twin.
    """

    def __init__(self, whole: Pack, state: State, compiled: bool) -> None:
        self.whole, self.pack, self.state, self.compiled = whole, whole, state, compiled
        self.places = list(range(len(whole)))  # of the members that go on, in the whole pack
        self._left_places: list[int] = []
        self._left: State | None = None
        self._numbers = {name: getattr(state, name).cpu().numpy().copy() for name in ("failed_at", "stopped_at")}

    def __len__(self) -> int:
        return len(self.places)

    @property
    def rows(self) -> list[int]:
        """The place in the whole pack of every member of `pack`, a twin among them."""
        return self.places + self.places[-1:] * (len(self.pack) - len(self.places))

    def number(self, name: str) -> NDArray[np.int64]:
        """`failed_at` or `stopped_at` of every member, (M,)."""
        found: NDArray[np.int64] = self._numbers[name].copy()
        found[self.places] = self.of_going(getattr(self.state, name).cpu().numpy())
        return found

    def of_going(self, values: NDArray[np.generic]) -> NDArray[np.generic]:
        """What members of `pack` have, (G, ...): without that of a twin."""
        return values[: len(self.places)]

    def leave(self, places: Sequence[int]) -> None:
        """Let the members at these places of the whole pack go on no more; those who left before do not count."""
        leaving = [place for place in self.places if place in set(places)]
        if not leaving:
            return
        self._numbers = {name: self.number(name) for name in self._numbers}
        left = self.state.of([self.places.index(place) for place in leaving]).to("cpu")
        self._left = left if self._left is None else self._left.joined(left)
        self._left_places += leaving
        staying = [at for at, place in enumerate(self.places) if place not in set(leaving)]
        self.places = [self.places[at] for at in staying]
        if len(staying) == 1 and self.compiled:
            staying = staying * 2
        self.state = self.state.of(staying)
        if staying:
            self.pack = self.pack.of(staying)

    def whole_state(self) -> State:
        """The state of every member, of the whole pack in its order; on the host once some have left."""
        if self._left is None:
            return self.state
        both = self._left.joined(self.state.of(range(len(self.places))).to("cpu"))
        order = np.argsort([*self._left_places, *self.places])
        return both.of(order.tolist())

    def decide(self, name: str, values_G: NDArray[np.int64]) -> None:
        """Write `stopped_at` or `stage` of the members that go on."""
        tensor: torch.Tensor = getattr(self.state, name)
        tensor.copy_(torch.from_numpy(values_G))
