"""Who computes a draw: draws.c on a CPU, as operators that the compiler need not look into; torch code elsewhere.

On a GPU the torch code may be fused, one kernel a draw.
"""

from typing import Any

import torch
from torch import Tensor

from trainers.random import fused, library, native, reference


def words(seeds_S: Tensor, step: Tensor, stream: int, site: int, count: int, part: tuple[int, int] | None) -> Tensor:
    """The `count` words of a draw of every seed, int64 (S, count); of words first..last-1 alone, if `part` is given."""
    if _in_c(seeds_S):
        found: Tensor = torch.ops.lengthwise.words.default(seeds_S, step, stream, site, count, *(part or (0, count)))
        return found
    source: Any = fused if fused.wanted(seeds_S) else reference
    drawn: Tensor = (
        source.words(seeds_S, step, stream, site, count)
        if part is None
        else source.some_words(seeds_S, step, stream, site, count, part)
    )
    return drawn


def sequential(words_STB: Tensor, n: int) -> Tensor:
    """Permutations of 0..n-1 begun, one entry after another: words (S, take, batch), int64 (S, batch, min(take, n))."""
    words_STB = words_STB[:, :n]  # an entry after the n-th would be n
    if _in_c(words_STB) and words_STB.shape[1] <= native.MOST:
        found: Tensor = torch.ops.lengthwise.sequential.default(words_STB, n)
        return found
    return reference.sequential(words_STB, n)


def order(words_SBN: Tensor, take: int) -> Tensor:
    """The places of the `take` smallest words of each row, or of all, ascending, the earlier of equal ones first."""
    take = min(take, words_SBN.shape[-1])
    if _in_c(words_SBN):
        found: Tensor = torch.ops.lengthwise.order.default(words_SBN, take)
        return found
    return reference.order(words_SBN, take)


def _in_c(given: Tensor) -> bool:
    return given.device.type == "cpu" and library.available()


def _words_shape(seeds_S: Tensor, step: Tensor, stream: int, site: int, count: int, first: int, last: int) -> Tensor:
    return seeds_S.new_empty((seeds_S.shape[0], last - first))


def _sequential_shape(words_STB: Tensor, n: int) -> Tensor:
    seeds, take, batch = words_STB.shape
    return words_STB.new_empty((seeds, batch, take))


def _order_shape(words_SBN: Tensor, take: int) -> Tensor:
    return words_SBN.new_empty((*words_SBN.shape[:-1], take))


# Not torch.library.custom_op: a call of one of its operators costs 8 us more, as much as all else of a small draw.
_operators: Any = torch.library.Library("lengthwise", "DEF")  # type: ignore[no-untyped-call]
_operators.define(
    "words(Tensor seeds, Tensor step, int stream, int site, SymInt count, SymInt first, SymInt last) -> Tensor"
)
_operators.define("sequential(Tensor words, SymInt n) -> Tensor")
_operators.define("order(Tensor words, SymInt take) -> Tensor")
for _name, _computed, _shape in (
    ("words", native.words, _words_shape),
    ("sequential", native.sequential, _sequential_shape),
    ("order", native.order, _order_shape),
):
    _operators.impl(_name, _computed, "CPU")
    torch.library.register_fake(f"lengthwise::{_name}", _shape, lib=_operators)
