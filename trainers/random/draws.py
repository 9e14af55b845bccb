"""Random draws: on a CPU by draws.c, as torch operators opaque to the compiler; elsewhere by torch code.

On a GPU the torch code may be fused into a single kernel per draw. A function here chooses between its two
implementations, which have its name: in c_library.py (C) and in reference.py (torch).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from trainers.random import c_library, fused, reference


def draw_words(
    seeds_S: Tensor, step: Tensor, stream: int, site: int, count: int, word_range: tuple[int, int] | None
) -> Tensor:
    """Return the `count` 32-bit words of a draw for every seed, int64 (S, count).

    word_range: (first, last + 1), to return only these words.
    """
    if _uses_library(seeds_S):
        first, last = word_range or (0, count)
        computed: Tensor = torch.ops.lengthwise.words.default(seeds_S, step, stream, site, count, first, last)
        return computed
    draw: Callable[..., Tensor] = reference.draw_words
    arguments: tuple[Any, ...] = (seeds_S, step, stream, site, count)
    if word_range is not None:
        draw = reference.draw_word_range
        arguments = (*arguments, word_range)
    return fused.call_fused(draw, *arguments) if fused.should_fuse(seeds_S) else draw(*arguments)


def draw_prefixes(words_STB: Tensor, n: int) -> Tensor:
    """Return the first entries of permutations of 0..n-1, int64 (S, batch, min(take, n)); words (S, take, batch)."""
    words_STB = words_STB[:, :n]  # an entry after the n-th would be n
    if _uses_library(words_STB) and words_STB.shape[1] <= c_library.MAX_ENTRIES:
        drawn: Tensor = torch.ops.lengthwise.sequential.default(words_STB, n)
        return drawn
    return reference.draw_prefixes(words_STB, n)


def argsort_smallest(words_SBN: Tensor, take: int) -> Tensor:
    """Return the indices of the `take` smallest words of each row, int64 (..., min(take, N)), sorted stably."""
    take = min(take, words_SBN.shape[-1])
    if _uses_library(words_SBN):
        indices: Tensor = torch.ops.lengthwise.order.default(words_SBN, take)
        return indices
    return reference.argsort_smallest(words_SBN, take)


def _uses_library(tensor: Tensor) -> bool:
    """Return whether draws on the device of this tensor are computed in C."""
    return tensor.device.type == "cpu" and c_library.is_available()


# The fake implementations of the operators: torch's compiler plans memory by them, without running a draw.


def _fake_draw_words(
    seeds_S: Tensor, step: Tensor, stream: int, site: int, count: int, first: int, last: int
) -> Tensor:
    """Return an empty tensor with the shape of `c_library.draw_words`."""
    return seeds_S.new_empty((seeds_S.shape[0], last - first))


def _fake_draw_prefixes(words_STB: Tensor, n: int) -> Tensor:
    """Return an empty tensor with the shape of `c_library.draw_prefixes`."""
    seeds, take, batch = words_STB.shape
    return words_STB.new_empty((seeds, batch, take))


def _fake_argsort_smallest(words_SBN: Tensor, take: int) -> Tensor:
    """Return an empty tensor with the shape of `c_library.argsort_smallest`."""
    return words_SBN.new_empty((*words_SBN.shape[:-1], take))


# Not torch.library.custom_op: its operators cost 8 us more per call, as much as a whole small draw.
_operators: Any = torch.library.Library("lengthwise", "DEF")  # type: ignore[no-untyped-call]
_operators.define(
    "words(Tensor seeds, Tensor step, int stream, int site, SymInt count, SymInt first, SymInt last) -> Tensor"
)
_operators.define("sequential(Tensor words, SymInt n) -> Tensor")
_operators.define("order(Tensor words, SymInt take) -> Tensor")
for _name, _computed, _fake in (
    ("words", c_library.draw_words, _fake_draw_words),
    ("sequential", c_library.draw_prefixes, _fake_draw_prefixes),
    ("order", c_library.argsort_smallest, _fake_argsort_smallest),
):
    _operators.impl(_name, _computed, "CPU")
    torch.library.register_fake(f"lengthwise::{_name}", _fake, lib=_operators)
