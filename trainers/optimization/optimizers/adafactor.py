"""Adafactor: Shazeer and Stern, arXiv:1804.04235, in the form of `torch.optim.Adafactor`."""

import math

import torch
from torch import Tensor

from trainers.optimization.optimizer import Optimizer, Update
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tensors.parameters import ParameterLayout


@register("optimizer", "adafactor")
class Adafactor(Optimizer):
    """Adafactor: second moments of matrices by row and column, steps relative to the size of each parameter."""

    beta2_decay: float = setting(-0.8, low=-1.0, high=0.0, member=True, help="power of the step in 1 - beta2")
    threshold: float = setting(1.0, low=1.0, member=True, help="largest root mean square of an update")
    least_scale: float = setting(1e-3, low=0.0, member=True, help="minimum size of a parameter that steps relate to")

    def make_initial_state(self, theta: Tensor, layout: ParameterLayout) -> dict[str, Tensor]:
        """Return second moments for each parameter: by rows and columns of a matrix, by entries of a vector."""
        state = dict[str, Tensor]()
        for name, value in layout.split(theta).items():
            parts = {"rows": value[..., :1], "columns": value[..., :1, :]} if value.dim() > 2 else {"entries": value}
            state |= {f"{part}.{name}": view.new_zeros(view.shape) for part, view in parts.items()}
        return state

    def update(self, inputs: Update) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the new weights and second moments."""
        # Row and column moments, and steps relative to the size of a parameter, need each parameter by itself.
        theta, gradients, decayed = map(inputs.layout.views, (inputs.theta, inputs.gradient, inputs.decayed_theta()))
        weights: dict[str, Tensor] = {}
        state: dict[str, Tensor] = {}
        dtype = inputs.theta.dtype
        epsilon = torch.finfo(inputs.theta.dtype).eps
        new_share = inputs.step.double() ** inputs.hyperparameters["beta2_decay"]
        # As in the paper the rate is at most 1 / sqrt(step).
        rate = torch.minimum(inputs.rate, inputs.step.double() ** -0.5)
        for name, gradient in gradients.items():
            share = new_share.to(dtype).reshape(-1, *[1] * (gradient.dim() - 1))

            # A matrix is approximated by the outer product of its rows and columns, divided by their common mean.
            squares = gradient * gradient
            if gradient.dim() > 2:
                rows = inputs.state[f"rows.{name}"]
                columns = inputs.state[f"columns.{name}"]
                rows = rows + share * (squares.mean(dim=-1, keepdim=True) - rows)
                columns = columns + share * (squares.mean(dim=-2, keepdim=True) - columns)
                state |= {f"rows.{name}": rows, f"columns.{name}": columns}
                variance = rows * columns / rows.mean(dim=-2, keepdim=True).clamp(min=epsilon)
            else:
                entries = inputs.state[f"entries.{name}"]
                variance = state[f"entries.{name}"] = entries + share * (squares - entries)
            change = gradient * torch.rsqrt(variance.clamp(min=epsilon * epsilon))

            # The step is relative to the parameter; the threshold limits updates whose moments are out of date.
            least_scale = inputs.hyperparameters["least_scale"].to(dtype)
            size = torch.maximum(_root_mean_square(theta[name]), least_scale) * rate.to(dtype)
            factor = size / (_root_mean_square(change) / inputs.hyperparameters["threshold"].to(dtype)).clamp(min=1.0)
            weights[name] = decayed[name] - change * factor.reshape(share.shape)
        return inputs.layout.flatten(weights), state


def _root_mean_square(value: Tensor) -> Tensor:
    """Return the root mean square of each member's entries, (M, 1)."""
    flat = value.reshape(len(value), -1)
    norm: Tensor = torch.linalg.vector_norm(flat, dim=1, keepdim=True)
    return norm / math.sqrt(flat.shape[1])
