"""Extra heads that compare two numbers by digit significance at any position (Sabbaghi et al., arXiv:2406.01895)."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from trainers.errors import Problem
from trainers.positions.context import Context, Pass, Scores
from trainers.positions.learned import look_up_positions
from trainers.positions.pairwise import compute_pairwise_scores, declare_pairwise_table, find_multiplier_problems
from trainers.positions.position import Position, Sizes
from trainers.settings.fields import Settings, setting
from trainers.settings.registry import register
from trainers.tensors.numerals import FIRST, SECOND, find_places
from trainers.tensors.parameters import Parameter


@register("position", "significance")
class Significance(Position):
    """Learned absolute positions for all heads, and pairwise vectors by digit significance in the extra heads.

    The first heads are ordinary. In the others, pairs of number tokens have a trained vector, added to the key as in
    `rpe`: the second number's token of significance s has the virtual index v = s, the first number's v = s + l + 1
    with l the width of the second, and the pair (i, j) has the vector of v_i - v_j. The rows of the table are in the
    order of v_j - v_i, so without text they equal the rows of `rpe`: -1 is the next lower significance. If `uniform` is
    not 0, keys that are digits of the first number have one vector for all number queries, as in `upe`. Pairs with an
    operator or text have no vector, and nothing is masked. The indices v, the number of heads, and the absence of
    multiplier vectors for text queries are chosen here; the paper does not state them.
    """

    trial_task: ClassVar[Mapping[str, Any]] = {"name": "padded_addition", "width": 4, "train_digits": 2}
    looks_ahead = True  # significance counts from the right

    ordinary: int | None = setting(None, low=0, help="first heads, without pairwise vectors; null: half of the heads")
    uniform: int = setting(0, low=0, help="multiplier digits with a vector for all queries; 0: significance alone")

    def find_head_problems(self, heads: int, head_width: int) -> Iterator[Problem]:
        """Yield a problem if no head is left for significance."""
        if self.ordinary is not None and self.ordinary >= heads:
            message = f"{self.ordinary} ordinary heads of {heads} leave no head for significance"
            yield Problem(key="position.ordinary", given=self.ordinary, message=message, allowed=f"< heads ({heads})")

    def find_task_problems(self, task: Settings) -> Iterator[Problem]:
        """Yield a problem if the task has no two numbers around an operator, or no multiplier of `uniform` digits."""
        if not hasattr(task, "places"):
            message = "needs a task of two numbers around an operator"
            yield Problem(key="position", given=self.name, message=message)
        elif self.uniform:
            yield from find_multiplier_problems(self.uniform, task)

    def parameters(self, sizes: Sizes) -> tuple[Parameter, ...]:
        """Return the vectors of the absolute positions."""
        return (Parameter(name="positions", shape=(sizes.ids, sizes.width), std=sizes.std, decay=False),)

    def layer_parameters(self, name: str, sizes: Sizes) -> tuple[Parameter, ...]:
        """Return 2 longest - 1 vectors of differences (some unused with text), then the uniform vectors."""
        return declare_pairwise_table(name, 2 * sizes.longest - 1 + self.uniform, sizes)

    def embed(self, x_MBTD: Tensor, forward_pass: Pass) -> Tensor:
        """Add the vector of each absolute position."""
        return x_MBTD + look_up_positions(forward_pass.weights["positions"], forward_pass)

    def score(self, context: Context) -> Scores:
        """Return the bias q_i . p_ij / sqrt(K) for pairs of number tokens in the extra heads, else 0."""
        table = context.weights[f"{context.name}.pairs"]
        ordinary = context.q.shape[2] // 2 if self.ordinary is None else self.ordinary
        rows, has_vector = self._find_rows(context, table.shape[1] - self.uniform)
        scores = compute_pairwise_scores(context.q[:, :, ordinary:], table, rows[:, :, None])
        scores = torch.where(has_vector[:, :, None], scores, 0.0)
        # The ordinary heads have a bias of zero.
        return Scores(bias=functional.pad(scores, (0, 0, 0, 0, ordinary, 0)))

    def _find_rows(self, context: Context, relative: int) -> tuple[Tensor, Tensor]:
        """Return the table row of each pair, and whether the pair has a vector; relative: number of differences."""
        # With these virtual indices equal significances have the same difference wherever the numbers are.
        places = find_places(context.tokens)
        first, second = places.role == FIRST, places.role == SECOND
        virtual = torch.where(first, places.significance + second.sum(dim=-1, keepdim=True) + 1, places.significance)
        rows = virtual[..., None, :] - context.select_queries(virtual)[..., :, None] + relative // 2
        if self.uniform:
            rows = torch.where(first[..., None, :], relative + places.significance[..., None, :] - 1, rows)

        # Operators and text have no significance, so their pairs have no vector.
        is_number = first | second
        has_vector = context.select_queries(is_number)[..., :, None] & is_number[..., None, :]
        return torch.where(has_vector, rows, 0), has_vector
