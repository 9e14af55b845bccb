"""nn.Dropout in torch modules, with the random numbers of a pass: keyed by seed, step and call, for every member.

Shapes: M members, B rows.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from trainers.tensors.noise import Noise


@dataclass
class DropoutDraws:
    """The dropout of one call of a module, for M members on B rows; each nn.Dropout it calls draws at its own site.

    noise: its rates apply to every nn.Dropout; without rates each has its own `p`. member: the place of the called
    member among the M members, int64 (1,), which differs within vmap.
    """

    noise: Noise
    members: int
    rows: int
    member: Tensor
    calls: int = 0

    def drop(self, x: Tensor, p: float) -> Tensor:
        """Apply dropout to a tensor of one member. Raises ValueError unless a slice of a batch has its rows first."""
        site, self.calls = self.calls, self.calls + 1
        noise = self.noise
        if noise.total is not None and x.shape[0] != self.rows:
            raise ValueError(
                f"nn.Dropout is given {tuple(x.shape)} with training.accumulation; allowed: {self.rows} rows first"
            )
        if noise.rate_M is None:
            noise = replace(noise, rate_M=torch.full((self.members,), p, dtype=torch.float64, device=x.device))
        factors_M = noise.dropout_factors(site, tuple(x.shape), x.dtype)
        return x * torch.index_select(factors_M, 0, self.member)[0]

    def select(self, m: int) -> "DropoutDraws":
        """Return the dropout of a call of member m alone."""
        index_M = (
            torch.arange(self.members, device=self.member.device) if self.noise.index_M is None else self.noise.index_M
        )
        rate_M = self.noise.rate_M
        noise = replace(self.noise, index_M=index_M[m : m + 1], rate_M=None if rate_M is None else rate_M[m : m + 1])
        return DropoutDraws(noise, 1, self.rows, torch.zeros_like(self.member))


_current: ContextVar[DropoutDraws | None] = ContextVar("dropout of the call at hand", default=None)


class KeyedDropout(nn.Dropout):
    """nn.Dropout with the random numbers of the call at hand; outside of training it drops nothing."""

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with dropout of the member's rate."""
        draws = _current.get()
        return x if draws is None or not self.training else draws.drop(x, self.p)


def replace_dropout(module: nn.Module) -> nn.Module:
    """Make every nn.Dropout in a module draw keyed random numbers; return the module."""
    for part in module.modules():
        if type(part) is nn.Dropout:
            part.__class__ = KeyedDropout
    return module


def has_dropout(module: nn.Module) -> bool:
    """Whether a module has an nn.Dropout."""
    return any(isinstance(part, KeyedDropout) for part in module.modules())


@contextmanager
def dropout_of(draws: DropoutDraws | None) -> Iterator[None]:
    """Use `draws` for every nn.Dropout that is called in the context; None drops nothing."""
    token = _current.set(draws)
    try:
        yield
    finally:
        _current.reset(token)
