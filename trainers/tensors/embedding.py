"""Stacked token embedding."""

import torch
from torch import Tensor
from torch.nn import functional


def embed(table_MVD: Tensor, tokens_MBT: Tensor) -> Tensor:
    """Rows of each member's own table: (M, B, T, D)."""
    members, vocabulary, width = table_MVD.shape
    offset = torch.arange(members, device=tokens_MBT.device) * vocabulary
    return functional.embedding(tokens_MBT + offset[:, None, None], table_MVD.reshape(members * vocabulary, width))
