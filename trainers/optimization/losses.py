"""The shipped losses that replace the loss of a task.

Shapes: M members, B rows, T positions, V output tokens.
"""

import torch
from torch import Tensor

from trainers.optimization.loss import Loss, LossInputs
from trainers.settings.fields import setting
from trainers.settings.registry import register


@register("loss", "r_drop")
class RDrop(Loss):
    """R-Drop: cross-entropy of two passes with different dropout, plus the divergence of their distributions.

    alpha/2 (KL(p1 || p2) + KL(p2 || p1)) - log p1 - log p2 at every counted target: equation 4 of arXiv:2106.14448.
    """

    passes = 2

    alpha: float = setting(1.0, low=0.0, member=True, help="factor of the divergence between the two passes")

    def explain_no_effect(self, is_random: bool) -> str:
        """Return that both passes are equal without dropout."""
        return "" if is_random else f"training.loss: the two passes of {self.name} are the same without dropout"

    def compute(self, inputs: LossInputs) -> tuple[Tensor, Tensor]:
        """Return both losses plus the divergence, and the weight of a single loss, (M,) each."""
        first, second = inputs.logits(0), inputs.logits(1)
        (loss_M, weight_M) = inputs.task_loss(first)
        (other_M, _) = inputs.task_loss(second)

        # The sum of both divergences is sum (p - q) (log p - log q); masked targets have weight 0.
        p = torch.log_softmax(first, dim=-1)
        q = torch.log_softmax(second, dim=-1)
        divergence_MBT = ((p.exp() - q.exp()) * (p - q)).sum(dim=-1)  # p, q: log-probabilities
        divergence_M = (divergence_MBT * inputs.target_weights).sum(dim=(1, 2))
        return loss_M + other_M + 0.5 * inputs.hyperparameters["alpha"] * divergence_M, weight_M
