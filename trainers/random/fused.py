"""Draws on a GPU as one kernel each, which torch's compiler makes of the reference; to the same bits.

The reference takes more than a hundred kernels for a draw, each of which reads and writes as many numbers as are drawn.
A kernel serves draws of any size. It takes seconds to make, so it is used where training takes long (see `fuse`), and
from then on in the whole process. The first draw with each kernel is compared with the reference, which draws instead
where no kernel can be made or one is wrong.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from trainers.random import reference


@dataclass
class _Outcome:
    """Whether draws are fused, and why they cannot be."""

    wanted: bool = False
    why: str | None = None
    told: bool = False


_outcome = _Outcome()


def fuse(draws: bool = True) -> None:
    """Fuse the draws of this process, where they can be, or no longer."""
    _outcome.wanted = draws and _outcome.why is None


def wanted(given: Tensor) -> bool:
    """Whether draws with these seeds are fused: on a GPU, once that was asked for; a compiled program fuses its own."""
    return _outcome.wanted and given.device.type == "cuda" and not torch.compiler.is_compiling()


def words(*arguments: Any) -> Tensor:
    """As the reference has it."""
    return _called(reference.words, arguments)


def some_words(*arguments: Any) -> Tensor:
    """As the reference has it."""
    return _called(reference.some_words, arguments)


def said() -> str | None:
    """What a person should know, once in a process: that draws cannot be fused, and why."""
    if _outcome.why is None or _outcome.told:
        return None
    _outcome.told = True
    return f"random numbers are drawn in many kernels, slower and to the same bits: {_outcome.why}"


def _called(function: Callable[..., Tensor], arguments: tuple[Any, ...]) -> Tensor:
    with torch.no_grad():  # a kernel of its own else for draws inside of a gradient
        made = _kernels_made()
        try:
            found = _program(function)(*arguments)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # of any kind: a compiler calls others
            return _given_up(function, arguments, f"{type(error).__name__}: {error}".splitlines()[0])
        if _kernels_made() != made and not torch.equal(found, function(*arguments)):
            return _given_up(function, arguments, "the kernels of torch's compiler draw others")
        return found


def _kernels_made() -> int:
    """How many programs torch's compiler has made in this process; each serves draws of some sizes."""
    compiler: Any = sys.modules.get("torch._dynamo.utils")  # not imported here, which takes a second
    return 0 if compiler is None else int(compiler.counters["stats"]["unique_graphs"])


def _given_up(function: Callable[..., Tensor], arguments: tuple[Any, ...], why: str) -> Tensor:
    _outcome.wanted, _outcome.why = False, why
    return function(*arguments)


@cache
def _program(function: Callable[..., Tensor], backend: str = "inductor") -> Callable[..., Tensor]:
    torch._dynamo.config.recompile_limit = 1024  # sizes of one, or multiples of four, may each have their own
    torch._dynamo.config.accumulated_recompile_limit = 1024
    compiled: Callable[..., Tensor] = torch.compile(function, dynamic=True, fullgraph=True, backend=backend)
    return compiled
