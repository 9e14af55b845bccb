"""Dropout in torch modules, with the random numbers of a pass: keyed by seed, step and call, for every member.

`dropout(x, rate)` and every nn.Dropout draw so.

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
    """The dropout of one call of a module, for M members on B rows; each dropout in it draws at its own site.

    noise: its rates apply to every dropout; without rates each has its own. member: the place of the called
    member among the M members, int64 (1,), which differs within vmap.
    """

    noise: Noise
    members: int
    rows: int
    member: Tensor
    calls: int = 0

    def drop(self, x: Tensor, rate: float | None) -> Tensor:
        """Apply dropout to a tensor of one member. Raises ValueError unless a slice of a batch has its rows first."""
        site, self.calls = self.calls, self.calls + 1
        noise = self.noise
        if noise.total is not None and x.shape[0] != self.rows:
            raise ValueError(
                f"dropout is given {tuple(x.shape)} with training.accumulation; allowed: {self.rows} rows first"
            )
        if noise.rate_M is None:
            assert rate is not None  # the trial of the module refuses it
            noise = replace(noise, rate_M=torch.full((self.members,), rate, dtype=torch.float64, device=x.device))
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


@dataclass
class WatchedDropout:
    """Dropout in the trial of a module, which drops nothing and records whether there is any.

    has_rate: whether the model has a rate of every member.
    """

    has_rate: bool
    has_dropout: bool = False

    def drop(self, x: Tensor, rate: float | None) -> Tensor:
        """Return `x`. Raises ValueError for a dropout without a rate."""
        self.has_dropout = True
        if rate is None and not self.has_rate:
            raise ValueError("dropout(x) has no rate; allowed: dropout(x, rate), or a model with the field dropout")
        return x


_current: ContextVar[DropoutDraws | WatchedDropout | None] = ContextVar("dropout of the call at hand", default=None)


def dropout(x: Tensor, rate: float | None = None) -> Tensor:
    """Return `x` (B, ...) with dropout in a training step of a module; elsewhere `x`.

    The rate is that of the member if its model has the field `dropout`, else `rate`. Random numbers depend on the seed,
    the step and the number of dropouts before it in the module, not on the other members.
    """
    draws = _current.get()
    return x if draws is None else draws.drop(x, rate)


class KeyedDropout(nn.Dropout):
    """nn.Dropout with the random numbers of the call at hand; outside of training it drops nothing."""

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with dropout of the member's rate."""
        return dropout(x, self.p) if self.training else x


def replace_dropout(module: nn.Module) -> nn.Module:
    """Make every nn.Dropout in a module draw keyed random numbers; return the module."""
    for part in module.modules():
        if type(part) is nn.Dropout:
            part.__class__ = KeyedDropout
    return module


@contextmanager
def dropout_of(draws: DropoutDraws | WatchedDropout) -> Iterator[None]:
    """Use `draws` for every dropout that is called in the context."""
    token = _current.set(draws)
    try:
        yield
    finally:
        _current.reset(token)
