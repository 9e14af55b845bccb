"""Calls of draws.c on CPU tensors; the same numbers as reference.py."""

import torch
from torch import Tensor

from trainers.random.library import loaded

MOST = 64  # entries that `sequential` draws, as in draws.c


def words(seeds_S: Tensor, step: Tensor, stream: int, site: int, count: int, first: int, last: int) -> Tensor:
    """Words first..last-1 of the `count` words of a draw of every seed, int64 (S, last - first)."""
    seeds_S, step = seeds_S.contiguous(), step.contiguous()
    seeds = len(seeds_S)
    out = torch.empty((seeds, last - first), dtype=torch.int64)
    each = int(step.dim() > 0 and len(step) > 1)
    pointers = (out.data_ptr(), seeds_S.data_ptr(), step.data_ptr())
    loaded().lengthwise_words(*pointers, each, seeds, site, stream, -(-count // 4), first, last)
    return out


def sequential(words_STB: Tensor, n: int) -> Tensor:
    """Permutations of 0..n-1 begun, take <= MOST: words (S, take, batch), int64 (S, batch, take)."""
    words_STB = words_STB.contiguous()
    seeds, take, batch = words_STB.shape
    out = torch.empty((seeds, batch, take), dtype=torch.int64)
    loaded().lengthwise_sequential(out.data_ptr(), words_STB.data_ptr(), seeds, batch, n, take)
    return out


def order(words_SBN: Tensor, take: int) -> Tensor:
    """The places of the `take` <= N smallest words of each row, ascending, the earlier of equal ones first."""
    words_SBN = words_SBN.contiguous()
    n = words_SBN.shape[-1]
    out = torch.empty((*words_SBN.shape[:-1], take), dtype=torch.int64)
    scratch = torch.empty(8 * n, dtype=torch.int64)
    rows = words_SBN.numel() // n if n else 0
    loaded().lengthwise_order(out.data_ptr(), words_SBN.data_ptr(), scratch.data_ptr(), rows, n, take)
    return out
