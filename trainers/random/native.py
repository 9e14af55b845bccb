"""Calls of draws.c on CPU tensors; the same numbers as reference.py."""

import torch
from torch import Tensor

from trainers.random.library import get_library

MAX_ENTRIES = 64  # of `draw_prefixes`, as in draws.c


def words(seeds_S: Tensor, step: Tensor, stream: int, site: int, count: int, first: int, last: int) -> Tensor:
    """Return words first..last-1 of the `count` words of a draw for every seed, int64 (S, last - first)."""
    seeds_S, step = seeds_S.contiguous(), step.contiguous()
    seeds = len(seeds_S)
    out = torch.empty((seeds, last - first), dtype=torch.int64)
    step_per_seed = int(step.dim() > 0 and len(step) > 1)
    pointers = (out.data_ptr(), seeds_S.data_ptr(), step.data_ptr())
    get_library().lengthwise_words(*pointers, step_per_seed, seeds, site, stream, -(-count // 4), first, last)
    return out


def draw_prefixes(words_STB: Tensor, n: int) -> Tensor:
    """Return the first take <= MAX_ENTRIES entries of permutations of 0..n-1, int64 (S, batch, take)."""
    words_STB = words_STB.contiguous()
    seeds, take, batch = words_STB.shape
    out = torch.empty((seeds, batch, take), dtype=torch.int64)
    get_library().lengthwise_sequential(out.data_ptr(), words_STB.data_ptr(), seeds, batch, n, take)
    return out


def argsort_smallest(words_SBN: Tensor, take: int) -> Tensor:
    """Return the indices of the `take` <= N smallest words of each row, ascending and stable."""
    words_SBN = words_SBN.contiguous()
    n = words_SBN.shape[-1]
    out = torch.empty((*words_SBN.shape[:-1], take), dtype=torch.int64)
    scratch = torch.empty(8 * n, dtype=torch.int64)
    rows = words_SBN.numel() // n if n else 0
    get_library().lengthwise_order(out.data_ptr(), words_SBN.data_ptr(), scratch.data_ptr(), rows, n, take)
    return out
