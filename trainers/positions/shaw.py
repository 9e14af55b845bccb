"""Relative positions of Shaw et al. (arXiv:1803.02155): clipped differences on the keys, and on the values."""

from torch import Tensor

from trainers.positions.context import Context, Scores
from trainers.positions.pairwise import compute_pairwise_scores
from trainers.positions.position import Position, Sizes
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tensors.parameters import Parameter, uniform_parameter
from trainers.tensors.precision import matmul, upcast


@register("position", "shaw")
class Shaw(Position):
    """Scores are q_i . (k_j + a_(i-j)) / sqrt(E), with differences clipped to `clip`; one table per layer.

    The default clip and the initial values (uniform Xavier), which the paper does not state, are chosen here.
    """

    clip: int = setting(16, low=1, help="largest difference with a vector of its own, to either side")
    values: bool = setting(False, help="also add a vector by difference to the values")

    @property
    def has_mix(self) -> bool:
        """Whether values have vectors."""
        return self.values

    def layer_parameters(self, name: str, sizes: Sizes) -> tuple[Parameter, ...]:
        """Return 2 clip + 1 vectors for the keys, and as many for the values if they have any."""
        shape = (2 * self.clip + 1, sizes.head_width)
        bound = (6.0 / sum(shape)) ** 0.5
        names = ("pairs", "pair_values") if self.values else ("pairs",)
        return tuple(uniform_parameter(f"{name}.{key}", shape, -bound, bound) for key in names)

    def score(self, context: Context) -> Scores:
        """Return the bias q_i . a_(i-j) / sqrt(E)."""
        return Scores(
            bias=compute_pairwise_scores(context.q, context.weights[f"{context.name}.pairs"], self._find_rows(context))
        )

    def mix(self, context: Context, attention_MBHTK: Tensor) -> Tensor | None:
        """Return the vectors of the values, weighted by the attention to each difference."""
        if not self.values:
            return None
        # Adding up the attention to each difference first leaves a product with 2 clip + 1 vectors instead of one per
        # key.
        attention = attention_MBHTK.to(upcast(attention_MBHTK.dtype))  # sums of many small numbers
        sums = attention.new_zeros(*attention.shape[:-1], 2 * self.clip + 1)
        sums = sums.scatter_add(-1, self._find_rows(context).expand_as(attention), attention)
        return matmul(sums, context.weights[f"{context.name}.pair_values"][:, None, None])

    def _find_rows(self, context: Context) -> Tensor:
        """Return the table row of each pair, int64: its clipped difference."""
        return context.differences().clamp(-self.clip, self.clip) + self.clip
