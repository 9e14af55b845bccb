"""Weight averages of one training trajectory. They never feed back into training.

An average keeps `buffers` tensors of shape (M, P), updates them after every optimiser step and names the weights to
evaluate. Its numbers are member hyperparameters: they arrive as tensors of shape (M, 1).

- EMA:  ema <- decay * ema + (1 - decay) * theta.
- BEMA: bias-corrected EMA, "EMA Without the Lag: Bias-Corrected Iterate Averaging Schemes", arXiv:2508.00180, eq. for
  beta_t = (rho + gamma t)^-kappa and alpha_t = (rho + gamma t)^-eta:
      ema <- (1 - beta_t) ema + beta_t theta_t,   bema = ema + alpha_t (theta_t - theta_0).
- norm_matched: the control of BEMA, which lengthens the weights: raw weights with BEMA's norms.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from trainers.settings.fields import Settings, setting, settings_fields
from trainers.settings.registry import register
from trainers.tensors.parameters import Layout


class Average(Settings, ABC):
    """Base of every weight average. Shapes: weights (M, P), member hyperparameters in `h` (M, 1).

    `idle` are values of member hyperparameters that change nothing: `h` lacks those that no member of a pack has
    otherwise.
    """

    idle: ClassVar[Mapping[str, float]] = {}

    @property
    def source(self) -> "Average":
        """The average whose buffers it reads; averages of one source share them. Itself unless overridden."""
        return self

    @abstractmethod
    def start(self, theta: Tensor) -> tuple[Tensor, ...]:
        """The buffers before the first step."""

    @abstractmethod
    def update(
        self, buffers: tuple[Tensor, ...], theta: Tensor, step: Tensor, h: Mapping[str, Tensor]
    ) -> tuple[Tensor, ...]:
        """The buffers after optimiser step `step` (1, 2, ...) arrived at `theta`; itself where one stays as it was."""

    @abstractmethod
    def weights(self, buffers: tuple[Tensor, ...], theta: Tensor, layout: Layout) -> Tensor:
        """The weights to evaluate; `layout` says which columns belong to which parameter."""


def _mixed(past: Tensor, theta: Tensor, old: Tensor, new: Tensor) -> Tensor:
    """old * past + new * theta."""
    return (past * old.to(past.dtype)).add_(theta * new.to(past.dtype))


def _when(moved: Tensor, past: Tensor, theta: Tensor, step: Tensor, h: Mapping[str, Tensor]) -> Tensor:
    """`moved` where an update is due, `theta` during the burn-in, else `past`."""
    after = step - h["burn_in"] if "burn_in" in h else step
    if "update_period" in h:
        moved = torch.where(after % h["update_period"] == 0, moved, past)
    return torch.where(after <= 0, theta, moved) if "burn_in" in h else moved


@register("average", "raw")
class Raw(Average):
    """The training weights themselves."""

    def start(self, theta: Tensor) -> tuple[Tensor, ...]:
        """No buffers."""
        return ()

    def update(
        self, buffers: tuple[Tensor, ...], theta: Tensor, step: Tensor, h: Mapping[str, Tensor]
    ) -> tuple[Tensor, ...]:
        """Nothing to update."""
        return ()

    def weights(self, buffers: tuple[Tensor, ...], theta: Tensor, layout: Layout) -> Tensor:
        """The training weights."""
        return theta


@register("average", "ema")
class Ema(Average):
    """Exponential moving average with a fixed decay; equal to the training weights until `burn_in`."""

    decay: float = setting(low=0.0, high=1.0, member=True, help="weight of the past in each update")
    burn_in: int = setting(0, low=0, member=True, help="steps during which the average follows the training weights")
    update_period: int = setting(1, low=1, member=True, help="steps between updates")

    idle: ClassVar[Mapping[str, float]] = {"burn_in": 0, "update_period": 1}

    def start(self, theta: Tensor) -> tuple[Tensor, ...]:
        """The average itself."""
        return (theta.clone(),)

    def update(
        self, buffers: tuple[Tensor, ...], theta: Tensor, step: Tensor, h: Mapping[str, Tensor]
    ) -> tuple[Tensor, ...]:
        """One update where it is due."""
        (ema,) = buffers
        return (_when(_mixed(ema, theta, h["decay"], 1.0 - h["decay"]), ema, theta, step, h),)

    def weights(self, buffers: tuple[Tensor, ...], theta: Tensor, layout: Layout) -> Tensor:
        """The average."""
        return buffers[0]


@register("average", "bema")
class Bema(Average):
    """Bias-corrected exponential moving average (arXiv:2508.00180); defaults are those of the paper."""

    kappa: float = setting(
        0.5, low=-1.0, high=4.0, member=True, help="power of beta_t; negative: beta_t = 1, no averaging"
    )
    eta: float = setting(
        0.2, low=-1.0, high=4.0, member=True, help="power of alpha_t; negative: alpha_t = 0, plain EMA(beta_t)"
    )
    rho: float = setting(10.0, low=1.0, member=True, help="offset of the step count")
    gamma: float = setting(1.0, low=0.0, member=True, help="factor of the step count")
    burn_in: int = setting(
        0, low=0, member=True, help="steps during which average and anchor follow the training weights"
    )
    update_period: int = setting(1, low=1, member=True, help="steps between updates")

    idle: ClassVar[Mapping[str, float]] = {"burn_in": 0, "update_period": 1}

    def start(self, theta: Tensor) -> tuple[Tensor, ...]:
        """The EMA, the anchor theta_0 and the bias-corrected average."""
        return theta.clone(), theta.clone(), theta.clone()

    def update(
        self, buffers: tuple[Tensor, ...], theta: Tensor, step: Tensor, h: Mapping[str, Tensor]
    ) -> tuple[Tensor, ...]:
        """One update where it is due; during the burn-in all three follow the training weights."""
        ema, anchor, average = buffers
        after = step - h["burn_in"] if "burn_in" in h else step
        count = h["rho"] + h["gamma"] * torch.clamp(after, min=1)
        beta = torch.where(h["kappa"] < 0, torch.ones_like(count), count ** -h["kappa"])
        alpha = torch.where(h["eta"] < 0, torch.zeros_like(count), count ** -h["eta"])
        moved = _mixed(ema, theta, 1.0 - beta, beta)
        corrected = (theta - anchor).mul_(alpha.to(ema.dtype)).add_(moved)
        return (
            _when(moved, ema, theta, step, h),
            torch.where(after <= 0, theta, anchor) if "burn_in" in h else anchor,
            _when(corrected, average, theta, step, h),
        )

    def weights(self, buffers: tuple[Tensor, ...], theta: Tensor, layout: Layout) -> Tensor:
        """The bias-corrected average of the last update."""
        return buffers[2]


@register("average", "norm_matched")
class NormMatched(Bema):
    """The training weights with each parameter rescaled to the norm that BEMA gives it.

    BEMA extrapolates away from the start and so lengthens the weights; this control has its scale and not its
    direction. `parameters` names those rescaled; null: all.
    """

    parameters: tuple[str, ...] | None = setting(None, help="names of the parameters to rescale; null: all")

    @property
    def source(self) -> Average:
        """BEMA with the same numbers, unless a subclass keeps something else."""
        if type(self) is not NormMatched:
            return self
        return Bema(**{item.name: getattr(self, item.name) for item in settings_fields(Bema)})

    def weights(self, buffers: tuple[Tensor, ...], theta: Tensor, layout: Layout) -> Tensor:
        """Raw weights with BEMA's norm for each parameter; parameters of norm zero stay as they are."""
        own, wanted = layout.views(theta), layout.views(buffers[2])
        for name, value in own.items():
            if self.parameters is None or name in self.parameters:
                norms = [torch.linalg.vector_norm(v.flatten(1), dim=1) for v in (value, wanted[name])]
                factor = torch.where(norms[0] > 0, norms[1] / norms[0], 1.0)
                own[name] = value * factor.reshape(-1, *[1] * (value.dim() - 1))
        return layout.flat(own)
