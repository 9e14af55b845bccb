"""Uniform positions for the multiplier, relative ones elsewhere (UPE of Sabbaghi et al., arXiv:2406.01895, eq. 3.3)."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import torch

from trainers.errors import Problem
from trainers.positions.context import Context, Scores
from trainers.positions.pairwise import compute_pairwise_scores, declare_pairwise_table, find_multiplier_problems
from trainers.positions.position import Position, Sizes
from trainers.settings.fields import Settings, setting
from trainers.settings.registry import register
from trainers.tensors.parameters import Parameter


@register("position", "upe")
class Upe(Position):
    """The key of each multiplier digit has the same vector for all queries; every other pair uses its difference.

    The multiplier is at the first `uniform` positions, most significant digit first; its vectors are indexed by
    significance. As queries, multiplier digits and the operator use these vectors for multiplier keys and differences
    for other keys, which the paper does not state.
    """

    trial_task: ClassVar[Mapping[str, Any]] = {"name": "padded_multiplication", "number_digits": 4, "train_digits": 2}

    uniform: int = setting(1, low=1, help="digits of the multiplier")

    def find_task_problems(self, task: Settings) -> Iterator[Problem]:
        """Yield a problem if the number of uniform positions differs from the task's number of multiplier digits."""
        return find_multiplier_problems(self.uniform, task)

    def layer_parameters(self, name: str, sizes: Sizes) -> tuple[Parameter, ...]:
        """Return 2 ids - 1 relative vectors, then a vector for each multiplier digit, units first."""
        return declare_pairwise_table(name, 2 * sizes.ids - 1 + self.uniform, sizes)

    def score(self, context: Context) -> Scores:
        """Return the bias q_i . c_j / sqrt(K) for keys j of the multiplier, else q_i . p_(i-j) / sqrt(K)."""
        table = context.weights[f"{context.name}.pairs"]
        relative = table.shape[1] - self.uniform
        rows = context.differences() + relative // 2

        # The table has the rows of differences, then of the multiplier; the first position has the last row.
        key = context.key_ids if context.ids is None else context.key_ids[:, :, None, None, :]
        multiplier_rows = relative + self.uniform - 1 - key  # the first position is the most significant digit
        rows = torch.where(key < self.uniform, multiplier_rows.clamp(min=0), rows)
        return Scores(bias=compute_pairwise_scores(context.q, table, rows))
