"""Gradient descent, plain and with momentum."""

import torch
from torch import Tensor

from trainers.optimization.optimizer import Optimizer, Update
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tensors.parameters import ParameterLayout


@register("optimizer", "gradient_descent")
class GradientDescent(Optimizer):
    """Plain gradient descent, without momentum."""

    def start(self, theta: Tensor, layout: ParameterLayout) -> dict[str, Tensor]:
        """Return no state."""
        return {}

    def update(self, now: Update) -> tuple[Tensor, dict[str, Tensor]]:
        """Return theta - rate (gradient + weight_decay theta)."""
        return now.decayed_theta().sub_(now.rate.to(now.theta.dtype) * now.gradient), {}


@register("optimizer", "sgd")
class Sgd(Optimizer):
    """Gradient descent with momentum; weight decay is added to the gradient, as in `torch.optim.SGD`."""

    momentum: float = setting(0.9, low=0.0, below=1.0, member=True, help="weight of earlier gradients")
    nesterov: bool = setting(False, help="look one step of the momentum ahead")

    def start(self, theta: Tensor, layout: ParameterLayout) -> dict[str, Tensor]:
        """Return the sum of gradients, (M, P)."""
        return {"momentum": torch.zeros_like(theta)}

    def update(self, now: Update) -> tuple[Tensor, dict[str, Tensor]]:
        """Return theta - rate b with b = momentum b + gradient; with Nesterov's, rate (gradient + momentum b)."""
        dtype = now.theta.dtype
        decay, momentum = now.h["weight_decay"].to(dtype), now.h["momentum"].to(dtype)
        pull = now.theta * (decay if now.decay_mask is None else decay * now.decay_mask.to(dtype))
        gradient = pull.add_(now.gradient)
        buffer = now.state["momentum"] * momentum + gradient
        change = gradient + momentum * buffer if self.nesterov else buffer
        return now.theta - now.rate.to(dtype) * change, {"momentum": buffer}
