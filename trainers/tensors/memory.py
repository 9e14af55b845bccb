"""Whether tensors share memory, so that writing into one would change the other."""

from collections.abc import Iterable

import torch
from torch import Tensor


def may_share_memory(tensor: Tensor, others: Iterable[Tensor]) -> bool:
    """Return whether a tensor has the storage of one of the others; true in a compiled program, where it is unknown."""
    if torch.compiler.is_compiling():
        return True
    memory = tensor.untyped_storage().data_ptr()  # on a GPU, too, the address is known without waiting
    return any(memory == other.untyped_storage().data_ptr() for other in others)
