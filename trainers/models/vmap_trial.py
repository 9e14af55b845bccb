"""Calling a torch module with the weights of all members at once, and its faults, found before training.

Shapes: M members, B rows, T positions, V output tokens.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from trainers.errors import place_in_user_code

_FEW = 8  # positions of a trial, or fewer if the task has fewer


def call_members(
    module: nn.Module, weights: Mapping[str, Tensor], buffers: Mapping[str, Tensor], tokens_MBT: Tensor
) -> Tensor:
    """Return the logits (M, B, T, V) of a module with the weights of each member, and buffers that all share."""
    from torch.func import functional_call, vmap  # it imports symbolic algebra, for more than a second

    def one(own: dict[str, Tensor], tokens_BT: Tensor) -> Any:
        return functional_call(module, (own, dict(buffers)), (tokens_BT,))

    with sdpa_kernel(SDPBackend.MATH):  # the only backend that vmap can batch
        logits: Tensor = vmap(one, randomness="error")(dict(weights), tokens_MBT)
    return logits


def check_module(module: nn.Module, other: nn.Module, sizes: tuple[int, int, int], causal: bool) -> Iterator[str]:
    """Yield why members cannot train as this module; `other` is the same one built with another seed.

    It is called on a few random tokens. sizes: input tokens, output tokens, positions.
    """
    frozen = [name for name, own in module.named_parameters() if not (own.requires_grad and own.is_floating_point())]
    yield from (f"the parameter {name} is not trained; make it a buffer" for name in frozen)
    buffers, others = dict(module.named_buffers()), dict(other.named_buffers())
    drawn = [name for name, buffer in buffers.items() if not torch.equal(buffer, others[name])]
    yield from (
        f"the buffer {name} is drawn at random, and members share buffers; make it a parameter" for name in drawn
    )
    if frozen or drawn:
        return
    inputs, outputs, positions = sizes
    members, rows, length = 2, 3, min(positions, _FEW)
    tokens = torch.randint(0, inputs, (members, rows, length), generator=torch.Generator().manual_seed(0))
    weights = {name: torch.stack([own.detach()] * members).requires_grad_() for name, own in module.named_parameters()}
    try:
        with _without_fallback():
            logits = call_members(module, weights, buffers, tokens)
            torch.autograd.grad(logits.sum(), list(weights.values()), allow_unused=True)
    except (Exception, SystemExit) as error:  # of the user's own code, or of torch in it
        yield _describe_failure(error)
        return
    if logits.shape != (members, rows, length, outputs):
        given, wanted = tuple(logits.shape[1:]), (rows, length, outputs)
        yield f"gives {given} for tokens ({rows}, {length}); wanted are logits {wanted}"
    elif not torch.isfinite(logits).all():
        yield "gives logits that are not finite, with its initial weights"
    elif causal and length > 1:
        changed = tokens.clone()
        changed[..., -1] = (changed[..., -1] + 1) % inputs
        moved = call_members(module, weights, buffers, changed)
        if not torch.allclose(moved[..., :-1, :], logits[..., :-1, :], rtol=1e-4, atol=1e-5):
            yield "sees the tokens it should predict: logits of this task are scored after every prefix"


def _describe_failure(error: BaseException) -> str:
    text = str(error).strip().splitlines()[0] if str(error).strip() else ""
    if "randomness error mode" in text:
        problem = "draws random numbers, which members would share; leave out dropout and noise"
    elif operator := re.search(r"aten::\w+(\.\w+)?", text):
        problem = f"torch.vmap has no batching rule for {operator[0]}"
    else:
        problem = f"fails when it is called for all members at once: {type(error).__name__}: {text}"
    return problem + place_in_user_code(error)


@contextmanager
def _without_fallback() -> Iterator[None]:
    """Make operators without a batching rule raise; torch would run them member by member and warn."""
    functorch: Any = torch._C._functorch
    before = functorch._is_vmap_fallback_enabled()
    functorch._set_vmap_fallback_enabled(False)
    try:
        yield
    finally:
        functorch._set_vmap_fallback_enabled(before)
