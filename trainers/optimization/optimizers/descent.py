"""Gradient descent, plain and with momentum."""

from torch import Tensor

from trainers.optimization.optimizer import Optimizer, Update
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tensors.parameters import ParameterLayout


@register("optimizer", "gradient_descent")
class GradientDescent(Optimizer):
    """Plain gradient descent, without momentum."""

    def make_initial_state(self, theta: Tensor, layout: ParameterLayout) -> dict[str, Tensor]:
        """Return no state."""
        return {}

    def update(self, inputs: Update) -> tuple[Tensor, dict[str, Tensor]]:
        """Return theta - rate (gradient + weight_decay theta)."""
        return inputs.decayed_theta().sub_(inputs.rate.to(inputs.theta.dtype) * inputs.gradient), {}


@register("optimizer", "sgd")
class Sgd(Optimizer):
    """Gradient descent with momentum; weight decay is added to the gradient, as in `torch.optim.SGD`."""

    momentum: float = setting(0.9, low=0.0, below=1.0, member=True, help="weight of earlier gradients")
    nesterov: bool = setting(False, help="Nesterov's momentum, which looks one step ahead")

    def make_initial_state(self, theta: Tensor, layout: ParameterLayout) -> dict[str, Tensor]:
        """Return the sum of gradients, (M, P)."""
        return {"momentum": theta.new_zeros(theta.shape)}

    def update(self, inputs: Update) -> tuple[Tensor, dict[str, Tensor]]:
        """Return theta - rate b with b <- momentum b + gradient; for Nesterov theta - rate (gradient + momentum b)."""
        # Unlike decoupled decay this decay enters the momentum.
        dtype = inputs.theta.dtype
        decay = inputs.hyperparameters["weight_decay"].to(dtype)
        momentum = inputs.hyperparameters["momentum"].to(dtype)
        decay_term = inputs.theta * (decay if inputs.decay_mask is None else decay * inputs.decay_mask.to(dtype))
        gradient = decay_term.add_(inputs.gradient)

        # Nesterov's update adds the momentum that the next step would add.
        new_momentum = inputs.state["momentum"] * momentum + gradient
        change = gradient + momentum * new_momentum if self.nesterov else new_momentum
        return inputs.theta - inputs.rate.to(dtype) * change, {"momentum": new_momentum}
