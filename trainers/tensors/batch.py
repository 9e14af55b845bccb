"""A batch: a frozen set of named tensors. Shapes: S seeds, M members, B rows, T positions, V output tokens."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Tensors by name, (S, B, ...) for S seeds or (M, B, ...) for M members; unused ones are None.

    tokens: inputs, int64 (S, B, T). targets: token ids, int64 (S, B, T), or distributions (S, B, T, V). ids: position
    ids, int64 (S, B, T); None means 0..T-1. groups: int64 (S, B, T); a token of group 0 sees every group, any other
    token its own group and group 0. weight: weights of the targets in the loss, (S, B, T). lengths: numbers of real
    tokens, int64 (S, B), at least 1; the tokens behind them are padding, which no real token sees. None means T. A task
    with more tensors adds fields in a subclass.
    """

    tokens: Tensor
    targets: Tensor
    ids: Tensor | None = None
    groups: Tensor | None = None
    weight: Tensor | None = None
    lengths: Tensor | None = None

    def real_mask(self) -> Tensor | None:
        """Return the mask of real tokens, bool (S, B, T); None if no row is padded."""
        if self.lengths is None:
            return None
        return torch.arange(self.tokens.shape[-1], device=self.tokens.device) < self.lengths[..., None]

    def for_members(self, seed_index_M: Tensor | None) -> Self:
        """Return the batch of every member, (M, B, ...).

        seed_index_M: the index of each member's seed; None if members and seeds are the same.
        """
        return self if seed_index_M is None else self._map(lambda tensor: tensor[seed_index_M])

    def slice_seeds(self, first: int, last: int) -> Self:
        """Return the batch of the seeds first..last-1, as views."""
        return self._map(lambda tensor: tensor[first:last])

    def slice_rows(self, first: int, last: int) -> Self:
        """Return the batch of the rows first..last-1, as views."""
        return self._map(lambda tensor: tensor[:, first:last])

    def contiguous(self) -> Self:
        """Return the batch with contiguous tensors."""
        return self._map(Tensor.contiguous)

    def clone(self) -> Self:
        """Return a contiguous copy in new memory."""
        return self._map(lambda tensor: tensor.clone(memory_format=torch.contiguous_format))

    def tensors(self) -> list[Tensor]:
        """Return the tensors that are not None."""
        return [tensor for tensor in vars(self).values() if isinstance(tensor, Tensor)]

    def _map(self, change: Callable[[Tensor], Tensor]) -> Self:
        changed = {name: change(value) for name, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(self, **changed)
