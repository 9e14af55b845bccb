"""Relative positions as pairwise vectors on the keys (RPE of Sabbaghi et al., arXiv:2406.01895)."""

from collections.abc import Mapping

from torch import Tensor

from trainers.config.registry import register
from trainers.config.settings import Settings
from trainers.maps import Map, Weights
from trainers.parameters import Parameter
from trainers.positions.pairwise import pairwise_maps, pairwise_scores, pairwise_table
from trainers.positions.position import Position, differences


@register("position", "rpe")
class Rpe(Position):
    """One trained vector for each difference of positions, added to the keys; differences are not clipped.

    The paper prints no scaling of the scores; they are divided by the root of the head width here, as in the
    `relative_key` option of the BERT implementation it builds on.
    """

    def layer_parameters(
        self, name: str, longest: int, heads: int, head_width: int, std: float
    ) -> tuple[Parameter, ...]:
        """2 longest - 1 vectors."""
        return pairwise_table(name, 2 * longest - 1, head_width, std)

    def score(
        self, q_MBHTK: Tensor, tokens_MBT: Tensor, weights: Mapping[str, Tensor], name: str, causal: bool
    ) -> Tensor:
        """q_i . p_(i-j) / sqrt(K)."""
        table = weights[f"{name}.pairs"]
        rows = differences(q_MBHTK.shape[-2], q_MBHTK.device) + table.shape[1] // 2  # none is clipped
        return pairwise_scores(q_MBHTK, table, rows)

    def maps(self, weights: Weights, task: Settings) -> Mapping[str, Map]:
        """The vectors of every layer by difference, and their norms."""
        return pairwise_maps(weights)
