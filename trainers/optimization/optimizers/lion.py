"""Lion: Chen et al., "Symbolic Discovery of Optimization Algorithms", arXiv:2302.06675, Algorithm 2."""

import torch
from torch import Tensor

from trainers.optimization.optimizer import Optimizer, Update
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tensors.parameters import ParameterLayout


@register("optimizer", "lion")
class Lion(Optimizer):
    """Lion: steps along the sign of a momentum; its learning rate is a third to a tenth of AdamW's."""

    beta1: float = setting(0.9, low=0.0, below=1.0, member=True, help="weight of the momentum in the direction")
    beta2: float = setting(0.99, low=0.0, below=1.0, member=True, help="decay of the momentum")

    def make_initial_state(self, theta: Tensor, layout: ParameterLayout) -> dict[str, Tensor]:
        """Return the momentum, (M, P)."""
        return {"momentum": theta.new_zeros(theta.shape)}

    def update(self, inputs: Update) -> tuple[Tensor, dict[str, Tensor]]:
        """Return theta (1 - rate weight_decay) - rate sign(beta1 m + (1 - beta1) gradient); m decays with beta2."""
        dtype = inputs.theta.dtype
        momentum = inputs.state["momentum"]
        direction, new_momentum = (
            momentum * beta.to(dtype) + inputs.gradient * (1.0 - beta).to(dtype)
            for beta in (inputs.hyperparameters["beta1"], inputs.hyperparameters["beta2"])
        )
        return inputs.decayed_theta().sub_(inputs.rate.to(dtype) * torch.sign(direction)), {"momentum": new_momentum}
