"""Learned absolute positions, optionally shifted by a random offset in training."""

import torch
from torch import Tensor

from trainers.positions.context import EMBED_SITE, Pass
from trainers.positions.position import Position, Sizes
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tensors.parameters import Parameter


@register("position", "learned")
class Learned(Position):
    """A trained vector for each position.

    Vectors of positions that never occur in training stay untrained: `max_offset` shifts the positions of each training
    row by a random 0..max_offset, so that later vectors are trained too.
    """

    max_offset: int = setting(0, low=0, help="largest random shift of a training row")
    init_std: float | None = setting(
        None, low=0.0, help="initial standard deviation; null: that of the model (minGPT: 0)"
    )

    @property
    def draws_random_numbers(self) -> bool:
        """Whether training draws random offsets."""
        return self.max_offset > 0

    def parameters(self, sizes: Sizes) -> tuple[Parameter, ...]:
        """Return the table, with rows up to the largest position id plus the largest offset."""
        std = self.init_std if self.init_std is not None else sizes.std
        return (Parameter(name="positions", shape=(sizes.ids + self.max_offset, sizes.width), std=std, decay=False),)

    def embed(self, x_MBTD: Tensor, forward_pass: Pass) -> Tensor:
        """Add the vector of each position."""
        # Evaluation uses the positions as they are.
        offset = None
        if forward_pass.noise is not None and forward_pass.training and self.max_offset:
            offset = forward_pass.noise.integers(EMBED_SITE, (x_MBTD.shape[1],), self.max_offset + 1)
        return x_MBTD + look_up_positions(forward_pass.weights["positions"], forward_pass, offset)


def look_up_positions(table_MPD: Tensor, forward_pass: Pass, offset_MB: Tensor | None = None) -> Tensor:
    """Return the vector of each query's position id plus the offset of its row, (M, B or 1, T, D)."""
    # Without ids, take a slice: the gradient of a look-up differs in its last bits, which would change recorded curves.
    if forward_pass.ids is None and offset_MB is None:
        return table_MPD[:, None, forward_pass.first : forward_pass.first + forward_pass.count]

    # Every member has a table of its own, so gather along its rows.
    ids = forward_pass.query_ids if offset_MB is None else offset_MB[:, :, None] + forward_pass.query_ids
    members = len(table_MPD)
    width = table_MPD.shape[-1]
    index = ids.expand(members, -1, -1).reshape(members, -1, 1).expand(-1, -1, width)
    return torch.gather(table_MPD, 1, index).reshape(members, -1, forward_pass.count, width)
