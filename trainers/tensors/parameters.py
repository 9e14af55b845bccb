"""The weights of a pack: a flat (M, P) buffer, with a view of every named parameter."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from trainers.random import Stream


@dataclass(frozen=True, kw_only=True)
class Parameter:
    """A named parameter of a member.

    shape: without the member dimension. std, mean, uniform: entries start normal(mean, std^2), or uniform with this
    mean and standard deviation. decay: whether weight decay acts on it. least: lower bound of its entries, applied at
    the start and after every update. hidden: whether it is the matrix of a map between hidden layers, for optimizers
    such as Muon; tables of tokens and positions and the map to the outputs are not.
    """

    name: str
    shape: tuple[int, ...]
    std: float
    mean: float = 0.0
    uniform: bool = False
    decay: bool = True
    least: float = -math.inf
    hidden: bool = False

    @property
    def size(self) -> int:
        """Number of entries."""
        return math.prod(self.shape)

    def draw_initial_values(self, stream: Stream, site: int) -> Tensor:
        """Return drawn initial entries, float32 (S, size)."""
        if self.uniform:
            return self.mean + math.sqrt(12.0) * self.std * (stream.uniform(site, (self.size,)) - 0.5)
        return self.mean + self.std * stream.normal(site, (self.size,))


def uniform_parameter(name: str, shape: tuple[int, ...], low: float, high: float, **options: Any) -> Parameter:
    """Return a parameter whose entries start uniform in [low, high); `options` are other fields of `Parameter`."""
    # A uniform distribution of width w has the standard deviation w / sqrt(12).
    std = (high - low) / math.sqrt(12.0)
    return Parameter(name=name, shape=shape, std=std, mean=(low + high) / 2, uniform=True, **options)


class ParameterLayout:
    """The columns of each parameter in the flat buffer."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        names = [parameter.name for parameter in parameters]
        if len(set(names)) != len(names):
            repeated = sorted(name for name, count in Counter(names).items() if count > 1)
            raise ValueError(f"parameters: repeated names: {', '.join(repeated)}; allowed: distinct names")
        self.parameters = tuple(parameters)
        self.sizes = [parameter.size for parameter in parameters]
        self.size = sum(self.sizes)

    @property
    def shapes(self) -> list[tuple[str, tuple[int, ...]]]:
        """The names and shapes of the parameters, in the order of their columns."""
        return [(parameter.name, parameter.shape) for parameter in self.parameters]

    def split(self, theta_MP: Tensor) -> dict[str, Tensor]:
        """Return each parameter as a view (M, *shape)."""
        pieces = torch.split(theta_MP, self.sizes, dim=1)
        return {p.name: piece.reshape(-1, *p.shape) for p, piece in zip(self.parameters, pieces, strict=True)}

    def flatten(self, views: dict[str, Tensor]) -> Tensor:
        """Return the flat buffer (M, P) of parameters (M, *shape) by name."""
        return torch.cat([views[p.name].reshape(len(views[p.name]), -1) for p in self.parameters], dim=1)

    def draw_initial_weights(
        self, seeds_S: Tensor, dtype: torch.dtype, overrides: Mapping[str, Tensor] | None = None
    ) -> Tensor:
        """Return the initial weights (S, P), drawn from each seed's init stream at a site for each parameter.

        overrides: initial values (S, *shape) by name, instead of drawn ones. Raises ValueError for an unknown name or
        a wrong shape.
        """
        # Overrides may come from the user's code.
        overrides = overrides or {}
        shapes = {name: (len(seeds_S), *shape) for name, shape in self.shapes}
        for name, value in overrides.items():
            if name not in shapes:
                raise ValueError(f"initial values: unknown parameter {name}; allowed: {', '.join(shapes)}")
            if tuple(value.shape) != shapes[name]:
                raise ValueError(f"initial values of {name} have shape {tuple(value.shape)}; allowed: {shapes[name]}")

        # The site is the index of the parameter, so an override does not change the draws of the others.
        stream = Stream(seeds_S, "init", torch.zeros((), dtype=torch.int64, device=seeds_S.device))
        pieces = [
            overrides[p.name].reshape(len(seeds_S), -1) if p.name in overrides else p.draw_initial_values(stream, site)
            for site, p in enumerate(self.parameters)
        ]
        pieces = [
            piece if math.isinf(p.least) else piece.clamp(min=p.least)
            for p, piece in zip(self.parameters, pieces, strict=True)
        ]
        return torch.cat(pieces, dim=1).to(dtype)

    def make_decay_mask(self, device: torch.device) -> Tensor | None:
        """Return 1 where weight decay acts, else 0, float32 (P,); None if it acts everywhere."""
        if all(p.decay for p in self.parameters):
            return None
        return torch.cat([torch.full((p.size,), float(p.decay)) for p in self.parameters]).to(device)

    def make_lower_bounds(self, device: torch.device, dtype: torch.dtype) -> Tensor | None:
        """Return the lower bound of every entry, (P,); None if no parameter has a bound."""
        if all(math.isinf(p.least) for p in self.parameters):
            return None
        return torch.cat([torch.full((p.size,), p.least, dtype=dtype) for p in self.parameters]).to(device)

    # Optimizers, averages and losses of users may call the methods under their names in version 2.0.0.
    views, flat, decay_mask, lower_bounds = split, flatten, make_decay_mask, make_lower_bounds
