"""Draws on a GPU as a single kernel each, compiled by torch from the reference; they give the same bits.

The reference launches more than a hundred kernels for a draw. A fused kernel serves draws of any size. It takes seconds
to compile, so `enable_fused_draws` is called only where training takes long, and then serves the whole process. The
first draw of each kernel is compared with the reference. If a kernel cannot be compiled or is wrong, the reference is
used.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor

from trainers.errors import describe_briefly


@dataclass
class _FusedState:
    """Whether draws are fused, and a message for the user if that failed."""

    is_enabled: bool = False
    failure: str | None = None
    is_reported: bool = False


fused_state = _FusedState()


def enable_fused_draws(enabled: bool = True) -> None:
    """Enable or disable fused draws in this process; after a failure they stay disabled."""
    fused_state.is_enabled = enabled and fused_state.failure is None


def should_fuse(seeds: Tensor) -> bool:
    """Return whether to fuse draws with these seeds: on a GPU, outside of compiled programs."""
    return fused_state.is_enabled and seeds.device.type == "cuda" and not torch.compiler.is_compiling()


def call_fused(function: Callable[..., Tensor], *arguments: Any) -> Tensor:
    """Return the result of a function of reference.py from a fused kernel, whose first result is checked."""
    with torch.no_grad():  # otherwise draws inside a gradient would need a second kernel
        programs_before = _count_programs()
        try:
            drawn = _compile_draw(function)(*arguments)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # any type: torch's compiler calls other compilers
            return _disable_and_draw(function, arguments, describe_briefly(error))

        # If this call has compiled a program, check it before its numbers are used.
        if _count_programs() != programs_before and not torch.equal(drawn, function(*arguments)):
            return _disable_and_draw(function, arguments, "the compiled kernels draw other numbers")
        return drawn


def _count_programs() -> int:
    """Return how many programs torch's compiler has made in this process."""
    compiler: Any = sys.modules.get("torch._dynamo.utils")  # importing it here would take a second
    return 0 if compiler is None else int(compiler.counters["stats"]["unique_graphs"])


def _disable_and_draw(function: Callable[..., Tensor], arguments: tuple[Any, ...], failure: str) -> Tensor:
    """Disable fused draws, record why, and return the result of the reference."""
    fused_state.is_enabled = False
    fused_state.failure = (
        f"random numbers are drawn without a fused kernel, which is slower but gives the same numbers: {failure}"
    )
    return function(*arguments)


@cache
def _compile_draw(function: Callable[..., Tensor], backend: str = "inductor") -> Callable[..., Tensor]:
    """Return a function of the reference wrapped by torch.compile, for draws of any size."""
    torch._dynamo.config.recompile_limit = 1024  # sizes of one, and multiples of four, may be compiled separately
    torch._dynamo.config.accumulated_recompile_limit = 1024
    compiled: Callable[..., Tensor] = torch.compile(function, dynamic=True, fullgraph=True, backend=backend)
    return compiled
