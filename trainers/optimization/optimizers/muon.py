"""Muon: Jordan et al., https://kellerjordan.github.io/posts/muon, with the update scale of arXiv:2502.16982."""

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from trainers.errors import Problem, find_nearest
from trainers.optimization.optimizer import Update
from trainers.optimization.optimizers.adamw import AdamW
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tensors.parameters import Parameter

_A, _B, _C = 3.4445, -4.7750, 2.0315  # coefficients of the quintic iteration: singular values end in 0.7 to 1.2


@register("optimizer", "muon")
class Muon(AdamW):
    """Muon for the matrices between hidden layers, AdamW for all other parameters.

    An update of a matrix is scaled by 0.2 sqrt(its larger side), so that matrices use AdamW's learning rates. The state
    is as large as AdamW's.
    """

    momentum: float = setting(0.95, low=0.0, below=1.0, member=True, help="weight of earlier gradients of matrices")
    nesterov: bool = setting(True, help="Nesterov's momentum, which looks one step ahead")
    iterations: int = setting(5, low=1, high=20, help="Newton-Schulz iterations that orthogonalize an update")
    matrices: tuple[str, ...] | None = setting(
        None, help="names of the matrices that Muon updates; null: all but those of inputs, outputs and positions"
    )

    def update(self, inputs: Update) -> tuple[Tensor, dict[str, Tensor]]:
        """Return AdamW's update, with the columns of matrices replaced by Muon's."""
        # AdamW updates all parameters; for matrices its weights and m are replaced below, and its v is unused.
        theta, state = super().update(inputs)
        dtype = theta.dtype
        momentum = inputs.hyperparameters["momentum"].to(theta.dtype)[:, :, None]
        weights = inputs.layout.split(theta)
        m = inputs.layout.split(state["m"])
        arrays = (inputs.decayed_theta(), inputs.gradient, inputs.state["m"])
        decayed, gradients, old_m = map(inputs.layout.views, arrays)

        # The scale gives updates the size of AdamW's, so that both use the same learning rate.
        for name in [p.name for p in inputs.layout.parameters if self.is_muon_parameter(p)]:
            gradient = gradients[name]
            m[name] = old_m[name] * momentum + gradient * (1.0 - momentum)
            direction = gradient * (1.0 - momentum) + m[name] * momentum if self.nesterov else m[name]
            scale = 0.2 * math.sqrt(max(gradient.shape[1:]))
            change = orthogonalize(direction, self.iterations) * (inputs.rate * scale).to(dtype)[:, :, None]
            weights[name] = decayed[name] - change
        return inputs.layout.flatten(weights), {"m": inputs.layout.flatten(m), "v": state["v"]}

    def is_muon_parameter(self, parameter: Parameter) -> bool:
        """Return whether Muon updates this parameter."""
        is_hidden = parameter.hidden if self.matrices is None else parameter.name in self.matrices
        return is_hidden and len(parameter.shape) == 2

    def count_operations(self, gradient: float, parameters: Sequence[Parameter]) -> float:
        """Return the operations of the gradient and of all Newton-Schulz iterations."""
        sides = [sorted(p.shape) for p in parameters if self.is_muon_parameter(p)]
        return gradient + self.iterations * sum(4.0 * few**2 * many + 2.0 * few**3 for few, many in sides)

    def find_new_member_problems(self, parameters: Callable[[], Sequence[Parameter]]) -> Iterator[Problem]:
        """Yield a problem for each name that is not a matrix of the model, and if Muon would update no matrix."""
        # The parameters are empty if the model itself is invalid; then nothing can be checked.
        known_parameters = parameters()
        names = [p.name for p in known_parameters if len(p.shape) == 2]
        allowed = f"null, or names of matrices, such as {', '.join(names[:8])}"
        unknown_names = [name for name in self.matrices or () if known_parameters and name not in names]
        for name in unknown_names:
            message = f"the model has no matrix {name}"
            close = find_nearest(name, names)
            yield Problem(key="matrices", given=name, message=message, allowed=allowed, nearest=close)

        # An empty list, or a model without hidden matrices, would train with AdamW alone.
        if known_parameters and not unknown_names and not any(map(self.is_muon_parameter, known_parameters)):
            yield Problem(
                key="matrices", given=self.matrices, message="Muon would have no matrix to update", allowed=allowed
            )


def orthogonalize(matrices: Tensor, iterations: int) -> Tensor:
    """Return matrices (M, rows, columns) with their singular values moved close to 1 by Newton-Schulz iterations."""
    # Wide matrices have the smaller Gram matrix; a norm of at most 1 lets the iteration converge.
    is_tall = matrices.shape[1] > matrices.shape[2]
    x: Tensor = matrices.transpose(1, 2) if is_tall else matrices
    norm: Tensor = torch.linalg.vector_norm(x.flatten(1), dim=1)[:, None, None]
    x = x / norm.clamp(min=1e-7)

    # Each iteration maps every singular value by the same quintic, which moves it towards 1.
    for _ in range(iterations):
        gram = x @ x.transpose(1, 2)
        x = _A * x + (_B * gram + _C * gram @ gram) @ x
    return x.transpose(1, 2) if is_tall else x
