"""A batch of S seeds, and how members index it."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """tokens (S, B, T) int64 in; targets (S, B, T) int64, or (S, B, T, V) target distributions."""

    tokens: Tensor
    targets: Tensor

    def of(self, index_M: Tensor | None) -> "Batch":
        """The batch of each of M members: members with the same seed see the same samples."""
        return self if index_M is None else Batch(self.tokens[index_M], self.targets[index_M])
