"""AdamW: Loshchilov and Hutter, arXiv:1711.05101."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from trainers.optimization.optimizer import Optimizer, Update
from trainers.settings.registry import register
from trainers.tensors.parameters import ParameterLayout


@register("optimizer", "adamw")
class AdamW(Optimizer):
    """AdamW with decoupled weight decay; its options are `training.betas` and `training.epsilon`."""

    training_keys: ClassVar[tuple[str, ...]] = ("betas", "epsilon")

    def make_initial_state(self, theta: Tensor, layout: ParameterLayout) -> dict[str, Tensor]:
        """Return the first and second moments, (M, P) each."""
        return {name: theta.new_zeros(theta.shape) for name in ("m", "v")}

    def update(self, inputs: Update) -> tuple[Tensor, dict[str, Tensor]]:
        """Return theta (1 - rate weight_decay) - rate m' / (sqrt(v') + epsilon), with bias-corrected moments."""
        dtype = inputs.theta.dtype
        gradient = inputs.gradient
        m = inputs.state["m"]
        v = inputs.state["v"]
        beta1 = inputs.hyperparameters["beta1"]
        beta2 = inputs.hyperparameters["beta2"]
        t = inputs.step.double()
        correction1 = 1.0 - beta1**t
        correction2 = torch.sqrt(1.0 - beta2**t)

        # In-place operations on new tensors: the same bits as m + (1 - beta1) (gradient - m) etc. with less memory.
        m = (gradient - m).mul_((1.0 - beta1).to(dtype)).add_(m)
        v = (v * beta2.to(dtype)).add_(((1.0 - beta2).to(dtype) * gradient).mul_(gradient))
        scale = torch.sqrt(v).div_(correction2.to(dtype)).add_(inputs.hyperparameters["epsilon"].to(dtype))
        change = (m / scale).mul_((inputs.rate / correction1).to(dtype))
        return inputs.decayed_theta().sub_(change), {"m": m, "v": v}

    def list_checked_tensors(self, state: Mapping[str, Tensor]) -> list[Tensor]:
        """Return all tensors except m, which is finite if v is."""
        return [buffer for name, buffer in state.items() if name != "m"]
