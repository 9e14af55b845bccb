"""Learned absolute positions, optionally shifted by a random offset in training."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from trainers.config.registry import register
from trainers.config.settings import Settings, setting
from trainers.maps import Map, Weights, gram
from trainers.noise import Noise
from trainers.parameters import Parameter
from trainers.positions.position import Position

_SITE = 1000  # of the random offsets in the dropout stream, beyond the sites of any model


@register("position", "learned")
class Learned(Position):
    """One trained vector for each position.

    Positions never trained on fail by construction: `max_offset` shifts the positions of each training row by a random
    0..max_offset, so that later vectors are trained too.
    """

    max_offset: int = setting(0, low=0, help="largest random shift of a training row")
    init_std: float | None = setting(None, low=0.0, help="initial standard deviation; null: the model's; minGPT's is 0")

    @property
    def random(self) -> bool:
        """Whether training draws random offsets."""
        return self.max_offset > 0

    def parameters(self, longest: int, width: int, heads: int, std: float) -> tuple[Parameter, ...]:
        """The table; enough rows for a shifted row of the longest input."""
        size = self.init_std if self.init_std is not None else std
        return (Parameter(name="positions", shape=(longest + self.max_offset, width), std=size, decay=False),)

    def embed(
        self, x_MBTD: Tensor, tokens_MBT: Tensor, weights: Mapping[str, Tensor], noise: Noise | None, causal: bool
    ) -> Tensor:
        """Adds the vector of each position."""
        members, batch, length, width = x_MBTD.shape
        table = weights["positions"]
        if noise is None or not noise.training or not self.max_offset:
            return x_MBTD + table[:, None, :length]
        offset = noise.integers(_SITE, (batch,), self.max_offset + 1)
        at = offset[:, :, None] + torch.arange(length, device=x_MBTD.device)
        at = at.expand(members, -1, -1).reshape(members, -1, 1).expand(-1, -1, width)
        return x_MBTD + torch.gather(table, 1, at).reshape(members, batch, length, width)

    def maps(self, weights: Weights, task: Settings) -> Mapping[str, Map]:
        """The products of the vectors, and which pairs of them training has seen."""
        table = weights["positions"]
        seen = np.arange(len(table)) < task.train_positions + self.max_offset  # type: ignore[attr-defined]
        trained = np.outer(seen, seen)
        return {"gram": gram(table, group="products of the position vectors", label="position", trained=trained)}
