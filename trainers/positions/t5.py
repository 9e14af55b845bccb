"""T5's biases: a trained number for each head and bucket of distances (Raffel et al., arXiv:1910.10683)."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.positions.context import Context, Scores
from trainers.positions.position import Position, Sizes
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tensors.parameters import Parameter


@register("position", "t5")
class T5(Position):
    """A trained bias for each head and bucket of i - j, with the same table in all layers as in T5.

    Small distances have a bucket each, larger distances share buckets of logarithmic width, and all from `max_distance`
    on share one. A causal model uses all buckets for earlier keys; a bidirectional model half of them for earlier and
    half for later keys. T5 does not divide q . k by sqrt(K); here it is divided as in every encoding.
    """

    buckets: int = setting(32, low=4, help="number of buckets; a multiple of 4")
    max_distance: int = setting(128, low=2, help="distances from here on share one bucket; more than buckets / 2")

    def find_combination_problems(self) -> Iterator[Problem]:
        """Yield a problem if `buckets` is not a multiple of 4, or if `max_distance` is within the narrow buckets."""
        if self.buckets % 4:
            yield Problem(
                key="buckets", given=self.buckets, message="cannot be halved twice", allowed="a multiple of 4"
            )
        elif self.max_distance <= self.buckets // 2:
            message = "leaves no distances for the wide buckets"
            allowed = f"> buckets / 2 ({self.buckets // 2})"
            yield Problem(key="max_distance", given=self.max_distance, message=message, allowed=allowed)

    def parameters(self, sizes: Sizes) -> tuple[Parameter, ...]:
        """Return one number per head and bucket, without weight decay."""
        return (Parameter(name="buckets", shape=(sizes.heads, self.buckets), std=sizes.std, decay=False),)

    def score(self, context: Context) -> Scores:
        """Return the bias of the bucket of i - j."""
        # Without ids all rows of a batch have the same buckets, which are looked up once.
        table = context.weights["buckets"]
        rows = self.bucket(context.differences(), context.causal)
        index = rows.reshape(1 if context.ids is None else len(rows), 1, -1).expand(*table.shape[:2], -1)
        bias = torch.gather(table, -1, index).reshape(*table.shape[:2], -1, *rows.shape[-2:])
        return Scores(bias=bias.transpose(1, 2))

    def bucket(self, difference: Tensor, causal: bool) -> Tensor:
        """Return the bucket of each i - j, int64; a causal model masks later keys, which have bucket 0."""
        count = self.buckets if causal else self.buckets // 2
        distance = difference.clamp(min=0) if causal else difference.abs()

        # Half of the buckets hold one distance each; the others grow with the logarithm of the distance.
        narrow_count = count // 2
        ratio = torch.log(distance.clamp(min=1).double() / narrow_count) / math.log(self.max_distance / narrow_count)
        wide_index = (ratio * (count - narrow_count) + 1e-9).floor().long()  # 1e-9: rounding of logarithms at the edges
        wide_bucket = narrow_count + wide_index
        bucket = torch.where(distance < narrow_count, distance, wide_bucket.clamp(max=count - 1))
        return bucket if causal else bucket + count * (difference < 0)
