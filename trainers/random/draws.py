"""Who computes a draw: the C library on a CPU, an operator around it in a compiled program, torch code elsewhere."""

import torch
from torch import Tensor

from trainers.random import library, native, reference


def words(seeds_S: Tensor, step: Tensor, stream: int, site: int, count: int, part: tuple[int, int] | None) -> Tensor:
    """The `count` words of a draw of every seed, int64 (S, count); of words first..last-1 alone, if `part` is given."""
    if _in_c(seeds_S):
        first, last = part or (0, count)
        draw = _operator if torch.compiler.is_compiling() else native.words
        return draw(seeds_S, step, stream, site, count, first, last)
    if part is None:
        return reference.words(seeds_S, step, stream, site, count)
    return reference.some_words(seeds_S, step, stream, site, count, part)


def sequential(words_STB: Tensor, n: int) -> Tensor:
    """Permutations of 0..n-1 begun, one entry after another: words (S, take, batch), int64 (S, batch, take)."""
    here = _in_c(words_STB) and not torch.compiler.is_compiling()
    return native.sequential(words_STB, n) if here else reference.sequential(words_STB, n)


def order(words_SBN: Tensor, take: int) -> Tensor:
    """The places of the `take` smallest words of each row, ascending, the earlier of equal ones first."""
    here = _in_c(words_SBN) and not torch.compiler.is_compiling()
    return native.order(words_SBN, take) if here else reference.order(words_SBN, take)


def _in_c(given: Tensor) -> bool:
    """Whether the library computes what is drawn from this tensor: a plain one, on a CPU."""
    if given.device.type != "cpu":
        return False
    if torch.compiler.is_compiling():
        return library.available()
    return type(given) is Tensor and library.available()


_operator = torch.library.custom_op("lengthwise::words", native.words, mutates_args=())


@_operator.register_fake
def _(seeds_S: Tensor, step: Tensor, stream: int, site: int, count: int, first: int, last: int) -> Tensor:
    return seeds_S.new_empty((seeds_S.shape[0], last - first))
