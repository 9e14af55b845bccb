"""Relative positions of Shaw et al. (arXiv:1803.02155): clipped differences on the keys, and on the values."""

from collections.abc import Mapping

from torch import Tensor

from trainers.positions.context import Context, Scores
from trainers.positions.pairwise import pairwise_maps, pairwise_scores
from trainers.positions.position import Position, Sizes
from trainers.settings.fields import Settings, setting
from trainers.settings.registry import register
from trainers.tensors.parameters import Parameter, uniform_parameter
from trainers.tensors.position_maps import Map, Weights
from trainers.tensors.precision import product, wide


@register("position", "shaw")
class Shaw(Position):
    """Scores are q_i . (k_j + a_(i-j)) / sqrt(E), differences beyond `clip` counting as `clip`; one table a layer.

    The clip and the initial values, uniform as of Xavier, are chosen here: the paper does not state the latter.
    """

    clip: int = setting(16, low=1, help="largest difference with a vector of its own, to either side")
    values: bool = setting(False, help="add a vector by difference to the values, too")

    @property
    def mixes(self) -> bool:
        """Whether values have vectors."""
        return self.values

    def layer_parameters(self, name: str, sizes: Sizes) -> tuple[Parameter, ...]:
        """2 clip + 1 vectors for the keys, and as many for the values."""
        shape = (2 * self.clip + 1, sizes.head_width)
        side = (6.0 / sum(shape)) ** 0.5
        names = ("pairs", "pair_values") if self.values else ("pairs",)
        return tuple(uniform_parameter(f"{name}.{key}", shape, -side, side) for key in names)

    def score(self, context: Context) -> Scores:
        """A bias of q_i . a_(i-j) / sqrt(E)."""
        return Scores(bias=pairwise_scores(context.q, context.weights[f"{context.name}.pairs"], self._rows(context)))

    def mix(self, context: Context, attention_MBHTK: Tensor) -> Tensor | None:
        """The vectors of the values, by the attention that each difference has."""
        if not self.values:
            return None
        found = attention_MBHTK.to(wide(attention_MBHTK.dtype))  # sums of many small numbers
        by_row = found.new_zeros(*found.shape[:-1], 2 * self.clip + 1)
        by_row = by_row.scatter_add(-1, self._rows(context).expand_as(found), found)
        return product(by_row, context.weights[f"{context.name}.pair_values"][:, None, None])

    def _rows(self, context: Context) -> Tensor:
        return context.differences().clamp(-self.clip, self.clip) + self.clip

    def maps(self, weights: Weights, task: Settings) -> Mapping[str, Map]:
        """The vectors of the keys by difference, and their norms."""
        return pairwise_maps(weights)
