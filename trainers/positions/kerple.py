"""KERPLE in its logarithmic form: scores fall with the logarithm of distance (Chi et al., arXiv:2205.09921)."""

from typing import ClassVar

import torch

from trainers.positions.context import Context, Scores
from trainers.positions.position import Position, Sizes
from trainers.settings.registry import register
from trainers.tensors.parameters import Parameter, uniform_parameter
from trainers.tensors.precision import upcast

_MIN_PARAMETER = 0.01


@register("position", "kerple")
class Kerple(Position):
    """Scores fall by r1 log(1 + r2 |i - j|), r1 and r2 trained for each head and shared by all layers.

    Initially r1 ~ U(0, 2) and r2 ~ U(0, 1). As in the authors' code, values are clamped to at least 0.01 at the start
    and after every update, so that every head keeps learning. Revision 1 clamped them on use instead, so heads below
    0.01 had no gradient. The paper's models are causal. In a bidirectional model the bias has no sign of direction.
    """

    revision: ClassVar[int] = 2

    def parameters(self, sizes: Sizes) -> tuple[Parameter, ...]:
        """Return two numbers per head, without weight decay."""
        return (
            uniform_parameter("kerple.r1", (sizes.heads,), 0.0, 2.0, decay=False, least=_MIN_PARAMETER),
            uniform_parameter("kerple.r2", (sizes.heads,), 0.0, 1.0, decay=False, least=_MIN_PARAMETER),
        )

    def score(self, context: Context) -> Scores:
        """Return the bias -r1 log(1 + r2 |i - j|)."""
        # Trained weights are clamped already, and keep a gradient at the bound; averages may extrapolate below it.
        r1, r2 = (
            context.weights[f"kerple.{key}"].clamp(min=_MIN_PARAMETER)[:, None, :, None, None] for key in ("r1", "r2")
        )
        distance = context.differences().abs().to(upcast(context.q.dtype))
        return Scores(bias=-r1 * torch.log1p(r2 * distance))
