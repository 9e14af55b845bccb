"""Dropout in torch modules with keyed random numbers: `dropout(x, rate)`, and every nn.Dropout.

Random numbers follow from the seed of the member, the step and the number of the dropout in the module. Shapes:
M members, B rows.
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
    """The dropout in a call of a module for M members on B rows; the n-th dropout of the module draws at site n.

    noise: if it has rates, they replace the rate of every dropout. member: the index of the called member among the M
    members, int64 (1,), which differs within vmap. calls: number of dropouts called so far.
    """

    noise: Noise
    members: int
    rows: int
    member: Tensor
    calls: int = 0

    def drop(self, x: Tensor, rate: float | None) -> Tensor:
        """Return a member's tensor with dropout. Raises ValueError unless a slice of a batch has its rows first."""
        # A slice of a batch draws the numbers of its rows, so `x` must have its rows first.
        site = self.calls
        self.calls = self.calls + 1
        noise = self.noise
        if noise.total is not None and x.shape[0] != self.rows:
            raise ValueError(
                f"dropout(x): x has shape {tuple(x.shape)}; allowed with training.accumulation: ({self.rows}, ...)"
            )

        # Under vmap the member is a tensor, so draw the factors of all members and select one.
        if noise.rate_M is None:
            assert rate is not None  # checked by the trial of the module
            noise = replace(noise, rate_M=torch.full((self.members,), rate, dtype=torch.float64, device=x.device))
        factors_M = noise.dropout_factors(site, tuple(x.shape), x.dtype)
        return x * torch.index_select(factors_M, 0, self.member)[0]

    def select(self, m: int) -> "DropoutDraws":
        """Return the dropout for a call of member m alone."""
        # The member keeps its seed, so it has the same random numbers as in a call of all members.
        seed_index_M, rate_M = self.noise.seed_index_M, self.noise.rate_M
        if seed_index_M is None:
            seed_index_M = torch.arange(self.members, device=self.member.device)
        rate_M = None if rate_M is None else rate_M[m : m + 1]
        noise = replace(self.noise, seed_index_M=seed_index_M[m : m + 1], rate_M=rate_M)
        return DropoutDraws(noise, 1, self.rows, torch.zeros_like(self.member))


@dataclass
class WatchedDropout:
    """Dropout in the trial of a module: drops nothing, and records whether the module has any dropout.

    has_member_dropout: whether the model has a dropout rate for every member.
    """

    has_member_dropout: bool
    has_dropout: bool = False

    def drop(self, x: Tensor, rate: float | None) -> Tensor:
        """Return `x`. Raises ValueError for a dropout without a rate."""
        self.has_dropout = True
        if rate is None and not self.has_member_dropout:
            raise ValueError("dropout(x) has no rate; allowed: dropout(x, rate), or a model with the field dropout")
        return x


_current: ContextVar[DropoutDraws | WatchedDropout | None] = ContextVar("dropout of the current call", default=None)


def dropout(x: Tensor, rate: float | None = None) -> Tensor:
    """Return `x` (B, ...) with dropout in training steps, unchanged otherwise; called in the `forward` of a module.

    The rate is the member's rate if its model has the field `dropout`, else `rate`. Random numbers depend on the seed,
    the step and the number of earlier dropouts in the module, not on other members.
    """
    draws = _current.get()
    return x if draws is None else draws.drop(x, rate)


class KeyedDropout(nn.Dropout):
    """nn.Dropout with keyed random numbers; it drops nothing outside of training steps."""

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` with dropout at the rate of the member or of the layer; see `dropout`."""
        return dropout(x, self.p) if self.training else x


def replace_dropout(module: nn.Module) -> nn.Module:
    """Make every nn.Dropout in a module draw keyed random numbers; return the module."""
    # Changing the class keeps rate and mode. A subclass may be another kind of dropout, so it is left alone.
    for part in module.modules():
        if type(part) is nn.Dropout:
            part.__class__ = KeyedDropout
    return module


@contextmanager
def use_dropout(draws: DropoutDraws | WatchedDropout) -> Iterator[None]:
    """Use `draws` for every dropout called in this context."""
    token = _current.set(draws)
    try:
        yield
    finally:
        _current.reset(token)
