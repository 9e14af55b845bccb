"""Calling a torch module with the weights of all members at once, and finding out before training what hinders it.

Shapes: M members, B rows, T positions, V output tokens.
"""

import re
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

_FEW = 8  # positions of a trial, where there are so many


def called(
    module: nn.Module, weights: Mapping[str, Tensor], buffers: Mapping[str, Tensor], tokens_MBT: Tensor
) -> Tensor:
    """The logits (M, B, T, V) of a module with the weights of each member, and buffers that all share."""
    from torch.func import functional_call, vmap  # it imports symbolic algebra, for more than a second

    def one(own: dict[str, Tensor], tokens_BT: Tensor) -> Any:
        return functional_call(module, (own, dict(buffers)), (tokens_BT,))

    with sdpa_kernel(SDPBackend.MATH):  # the one that vmap can do for all members at once
        found: Tensor = vmap(one, randomness="error")(dict(weights), tokens_MBT)
    return found


def unsuitable(module: nn.Module, other: nn.Module) -> Iterator[str]:
    """What of a module cannot be, a sentence each, without calling it; `other` is the same built with another seed."""
    for name, part in module.named_modules():
        if isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0:
            yield f"{name} is {type(part).__name__}(p={part.p}); members would share its masks, so leave it out"
    if not list(module.parameters()):
        yield "has no parameters"
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad or not parameter.is_floating_point():
            yield f"the parameter {name} is not trained; make it a buffer"
    buffers = dict(other.named_buffers())
    for name, buffer in module.named_buffers():
        if not torch.equal(buffer, buffers[name]):
            yield f"the buffer {name} is drawn at random, and members share buffers; make it a parameter"


def tried(module: nn.Module, inputs: int, outputs: int, positions: int, causal: bool) -> Iterator[str]:
    """What hinders a module on a few random tokens, a sentence: an operator that vmap cannot do, or what it gives."""
    members, rows, length = 2, 3, min(positions, _FEW)
    draw = torch.Generator().manual_seed(0)
    tokens = torch.randint(0, inputs, (members, rows, length), generator=draw)
    weights = {name: torch.stack([own.detach()] * members).requires_grad_() for name, own in module.named_parameters()}
    last = _LastCall()
    try:
        with _no_fallback(), last:
            found = called(module, weights, dict(module.named_buffers()), tokens)
            torch.autograd.grad(found.sum(), list(weights.values()), allow_unused=True)
    except (Exception, SystemExit) as error:  # of the user's own code, or of torch in it
        yield _in_words(error, last.name)
        return
    if not torch.isfinite(found).all():
        yield "gives logits that are not finite, with the weights it begins with"
        return
    if found.shape != (members, rows, length, outputs):
        given, wanted = tuple(found.shape[1:]), (rows, length, outputs)
        yield f"gives {given} for tokens ({rows}, {length}); wanted are logits {wanted}"
        return
    if causal and length > 1:
        other = tokens.clone()
        other[..., -1] = (other[..., -1] + 1) % inputs
        moved = called(module, weights, dict(module.named_buffers()), other)
        if not torch.allclose(moved[..., :-1, :], found[..., :-1, :], rtol=1e-4, atol=1e-5):
            yield "sees the tokens it should predict: logits of this task are scored after every prefix"


def _in_words(error: BaseException, last: str) -> str:
    text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
    if "randomness error mode" in text:
        return f"{last} draws random numbers, which members would share; leave out dropout and noise"
    if operator := re.search(r"aten::\w+(\.\w+)?", text):
        return f"torch.vmap has no batching rule for {operator[0]}, called by {last}"
    raised_in = traceback.extract_tb(error.__traceback__)[-1].filename  # what torch itself raises passes by _LastCall
    if raised_in != __file__ and not Path(raised_in).is_relative_to(Path(torch.__file__).parent):
        return f"fails on random tokens: {type(error).__name__}: {text}"
    return f"{last} fails for all members at once: {text}"


class _LastCall(TorchFunctionMode):
    """The name of the torch function that was called last."""

    name = "the module"

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name = getattr(func, "__name__", "")
        self.name = self.name if name.startswith("__") or not name else f"torch's {name}"
        return func(*args, **(kwargs or {}))


@contextmanager
def _no_fallback() -> Iterator[None]:
    """Have operators without a batching rule raise; torch would run them member by member and warn."""
    functorch: Any = torch._C._functorch
    before = functorch._is_vmap_fallback_enabled()
    functorch._set_vmap_fallback_enabled(False)
    try:
        yield
    finally:
        functorch._set_vmap_fallback_enabled(before)
