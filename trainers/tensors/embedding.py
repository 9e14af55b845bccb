"""Stacked token embedding: its parameter and the look-up."""

import torch
from torch import Tensor
from torch.nn import functional

from trainers.tensors.parameters import Parameter, uniform_parameter


def embedding_parameter(tokens: int, width: int, std: float, largest: float | None) -> Parameter:
    """Return the table, without weight decay: normal with `std`, or uniform in [-largest, largest) if that is given."""
    if largest is None:
        return Parameter(name="embedding", shape=(tokens, width), std=std, decay=False)
    return uniform_parameter("embedding", (tokens, width), -largest, largest, decay=False)


def embed(table_MVD: Tensor, tokens_MBT: Tensor) -> Tensor:
    """Look up tokens in each member's table; return (M, B, T, D)."""
    members, vocabulary, width = table_MVD.shape
    offset = torch.arange(members, device=tokens_MBT.device) * vocabulary
    return functional.embedding(tokens_MBT + offset[:, None, None], table_MVD.reshape(members * vocabulary, width))
