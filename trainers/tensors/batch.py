"""A batch: a frozen set of named tensors. Shapes: S seeds, M members, B rows, T positions, V output tokens."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Self

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Tensors by name, (S, B, ...) of S seeds or (M, B, ...) of M members; None where the task has no use for one.

    tokens int64 (S, B, T) in; targets int64 (S, B, T), or (S, B, T, V) target distributions. ids: int64 (S, B, T), the
    position id of each token; None: 0..T-1. groups: int64 (S, B, T); a token sees earlier ones of its own group, those
    of group 0, and all if its own is 0. weight: (S, B, T), how much each target counts. A task with more tensors adds
    fields in a subclass.
    """

    tokens: Tensor
    targets: Tensor
    ids: Tensor | None = None
    groups: Tensor | None = None
    weight: Tensor | None = None

    def of(self, index_M: Tensor | None) -> Self:
        """The batch of each of M members: members with the same seed see the same samples."""
        return self if index_M is None else self._each(lambda tensor: tensor[index_M])

    def seeds(self, first: int, last: int) -> Self:
        """The seeds first..last-1, as views."""
        return self._each(lambda tensor: tensor[first:last])

    def rows(self, first: int, last: int) -> Self:
        """The rows first..last-1."""
        return self._each(lambda tensor: tensor[:, first:last])

    def in_one_piece(self) -> Self:
        """The same, with tensors that lie in memory as those of any other batch of these shapes."""
        return self._each(Tensor.contiguous)

    def copied(self) -> Self:
        """The same in memory of its own."""
        return self._each(lambda tensor: tensor.clone(memory_format=torch.contiguous_format))

    def tensors(self) -> list[Tensor]:
        """The tensors that there are."""
        return [tensor for tensor in vars(self).values() if isinstance(tensor, Tensor)]

    def _each(self, change: Callable[[Tensor], Tensor]) -> Self:
        changed = {name: change(value) for name, value in vars(self).items() if isinstance(value, Tensor)}
        return replace(self, **changed)
