"""Relative positions as pairwise vectors on the keys (RPE of Sabbaghi et al., arXiv:2406.01895)."""

from trainers.positions.context import Context, Scores
from trainers.positions.pairwise import compute_pairwise_scores, declare_pairwise_table
from trainers.positions.position import Position, Sizes
from trainers.settings.registry import register
from trainers.tensors.parameters import Parameter


@register("position", "rpe")
class Rpe(Position):
    """A trained vector for each difference of positions, added to the keys; differences are not clipped.

    The paper prints no scaling of the scores; they are divided by the root of the head width here, as in the
    `relative_key` option of the BERT implementation it builds on.
    """

    def layer_parameters(self, name: str, sizes: Sizes) -> tuple[Parameter, ...]:
        """Return 2 ids - 1 vectors."""
        return declare_pairwise_table(name, 2 * sizes.ids - 1, sizes)

    def score(self, context: Context) -> Scores:
        """Return the bias q_i . p_(i-j) / sqrt(K)."""
        # The middle row belongs to the difference 0.
        table = context.weights[f"{context.name}.pairs"]
        rows = context.differences() + table.shape[1] // 2
        return Scores(bias=compute_pairwise_scores(context.q, table, rows))
