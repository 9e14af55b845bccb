"""Weight averages of a training trajectory. They feed back into training only through a loss that reads them.

An average has `buffers` of shape (M, P), updates them after every optimizer step and computes the weights to evaluate.
Its hyperparameters may differ between members: they are passed as tensors (M, 1).

- EMA:  ema <- decay * ema + (1 - decay) * theta.
- BEMA: bias-corrected EMA, "EMA Without the Lag: Bias-Corrected Iterate Averaging Schemes", arXiv:2508.00180, eq. for
  beta_t = (rho + gamma t)^-kappa and alpha_t = (rho + gamma t)^-eta:
      ema <- (1 - beta_t) ema + beta_t theta_t,   bema = ema + alpha_t (theta_t - theta_0).
- norm_matched: the control for BEMA, which increases weight norms: raw weights with BEMA's norms.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar

import torch
from torch import Tensor

from trainers.errors import Problem, find_nearest
from trainers.settings.fields import Settings, setting, settings_fields
from trainers.settings.registry import register
from trainers.tensors.parameters import ParameterLayout

LARGE_SHARE = 0.1  # of the initial weights in an average; above it, the average says little about training
_EXACT_UPDATES = 2**16  # the factors of later updates are sampled


class Average(Settings, ABC):
    """Base of every weight average. Shapes: weights (M, P), member hyperparameters in `h` (M, 1).

    neutral: hyperparameter values without effect; a hyperparameter with this value in all members is left out of `h`.
    """

    neutral: ClassVar[Mapping[str, float]] = {}
    former_names = Settings.former_names | {
        "start": "make_initial_buffers",
        "weights": "compute_weights",
        "start_share": "compute_initial_share",
        "start_remedy": "suggest_lower_share",
        "problems_of_new": "find_new_member_problems",
    }

    @property
    def source(self) -> "Average":
        """The average whose buffers this average uses, by default itself; averages with the same source share them."""
        return self

    def find_new_member_problems(self, parameter_names: Callable[[], Sequence[str]]) -> Iterator[Problem]:
        """Yield problems that reject a new configuration, but not a recorded one; parameter_names: of the model."""
        return iter(())

    def compute_initial_share(self, steps: int) -> float:
        """Return the share of the initial weights in the average after `steps` steps, from 0 to 1."""
        return 0.0

    def suggest_lower_share(self, steps: int) -> str:
        """Return as text which settings make this share large, and how to lower it."""
        return ""

    @abstractmethod
    def make_initial_buffers(self, theta: Tensor) -> tuple[Tensor, ...]:
        """Return the buffers before the first step."""

    @abstractmethod
    def update(
        self, buffers: tuple[Tensor, ...], theta: Tensor, step: Tensor, h: Mapping[str, Tensor]
    ) -> tuple[Tensor, ...]:
        """Return the buffers after optimizer step `step` (1, 2, ...) to the weights `theta`.

        An unchanged buffer may be returned as the same tensor.
        """

    @abstractmethod
    def compute_weights(self, buffers: tuple[Tensor, ...], theta: Tensor, layout: ParameterLayout) -> Tensor:
        """Return the weights to evaluate, (M, P); layout: the columns of every parameter."""


def _mix(average: Tensor, theta: Tensor, average_share: Tensor, theta_share: Tensor) -> Tensor:
    """Return average_share * average + theta_share * theta."""
    return (average * average_share.to(average.dtype)).add_(theta * theta_share.to(average.dtype))


def _apply_due(updated: Tensor, average: Tensor, theta: Tensor, step: Tensor, h: Mapping[str, Tensor]) -> Tensor:
    """Return `updated` for members whose update is due, `theta` during the burn-in, else `average`."""
    steps_after = step - h["burn_in"] if "burn_in" in h else step
    if "update_period" in h:
        updated = torch.where(steps_after % h["update_period"] == 0, updated, average)
    return torch.where(steps_after <= 0, theta, updated) if "burn_in" in h else updated


def _count_updates(average: "Ema | Bema", steps: int) -> int:
    """Return the number of updates of an average in `steps` steps, without the burn-in."""
    return max(0, steps - average.burn_in) // average.update_period


@lru_cache(maxsize=256)
def _compute_log_initial_share(kappa: float, rho: float, gamma: float, update_period: int, updates: int) -> float:
    """Return the logarithm of the product of 1 - beta_t over the updates of BEMA.

    Cached, because many members have the same settings.
    """
    # Later factors change so slowly that a sample of them is enough.
    log = 0.0
    for first, last in ((1, min(updates, _EXACT_UPDATES)), (_EXACT_UPDATES + 1, updates)):
        if (count := last - first + 1) > 0:
            steps = update_period * torch.linspace(first, last, min(count, _EXACT_UPDATES), dtype=torch.float64)
            beta = (rho + gamma * steps) ** -kappa if kappa >= 0 else torch.ones_like(steps)
            log += count * float(torch.log1p(-beta).mean())
    return log


def _explain_no_update(average: "Ema | Bema", steps: int) -> str:
    """Return as text that no update of an average is due."""
    return f"update_period {average.update_period}: no update is due within {steps} steps"


@register("average", "raw")
class Raw(Average):
    """The training weights themselves."""

    def make_initial_buffers(self, theta: Tensor) -> tuple[Tensor, ...]:
        """Return no buffers."""
        return ()

    def update(
        self, buffers: tuple[Tensor, ...], theta: Tensor, step: Tensor, h: Mapping[str, Tensor]
    ) -> tuple[Tensor, ...]:
        """Return no buffers."""
        return ()

    def compute_weights(self, buffers: tuple[Tensor, ...], theta: Tensor, layout: ParameterLayout) -> Tensor:
        """Return the training weights."""
        return theta


@register("average", "ema")
class Ema(Average):
    """Exponential moving average with a fixed decay; equal to the training weights until `burn_in`."""

    decay: float = setting(low=0.0, high=1.0, member=True, help="weight of the past in each update")
    burn_in: int = setting(0, low=0, member=True, help="steps during which the average follows the training weights")
    update_period: int = setting(1, low=1, member=True, help="steps between updates")

    neutral: ClassVar[Mapping[str, float]] = {"burn_in": 0, "update_period": 1}
    trial_settings: ClassVar[Mapping[str, Any]] = {"decay": 0.9}

    def find_new_member_problems(self, parameter_names: Callable[[], Sequence[str]]) -> Iterator[Problem]:
        """Yield a problem if the decay is 1, because the average then never changes."""
        if self.decay == 1.0:
            message = "1 keeps the weights that the average starts from"
            yield Problem(key="decay", given=self.decay, message=message, allowed=">= 0 and < 1")

    def compute_initial_share(self, steps: int) -> float:
        """Return decay^updates; 0 during the burn-in."""
        return float(self.decay ** _count_updates(self, steps)) if steps > self.burn_in else 0.0

    def suggest_lower_share(self, steps: int) -> str:
        """Return the decay that would leave 1 %."""
        if (updates := _count_updates(self, steps)) == 0:
            return _explain_no_update(self, steps)
        # Solve decay^updates = 0.01, rounded in 1 - decay, which may be tiny.
        decay = 1 - float(f"{1 - 0.01 ** (1 / updates):.3g}")
        return f"decay {self.decay:.6g}, updates {updates}; a decay of {decay:.12g} would leave 1 %"

    def make_initial_buffers(self, theta: Tensor) -> tuple[Tensor, ...]:
        """Return the average as a single buffer."""
        return (theta.clone(),)

    def update(
        self, buffers: tuple[Tensor, ...], theta: Tensor, step: Tensor, h: Mapping[str, Tensor]
    ) -> tuple[Tensor, ...]:
        """Update the average of every member whose update is due."""
        (ema,) = buffers
        return (_apply_due(_mix(ema, theta, h["decay"], 1.0 - h["decay"]), ema, theta, step, h),)

    def compute_weights(self, buffers: tuple[Tensor, ...], theta: Tensor, layout: ParameterLayout) -> Tensor:
        """Return the average."""
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

    neutral: ClassVar[Mapping[str, float]] = {"burn_in": 0, "update_period": 1}

    def compute_initial_share(self, steps: int) -> float:
        """Return the product of 1 - beta_t over the updates, minus alpha_t of the last update; 0 during the burn-in."""
        if steps <= self.burn_in:
            return 0.0
        if (updates := _count_updates(self, steps)) == 0:
            return 1.0
        log = _compute_log_initial_share(self.kappa, self.rho, self.gamma, self.update_period, updates)
        # The correction subtracts alpha_t times the initial weights.
        alpha = (self.rho + self.gamma * updates * self.update_period) ** -self.eta if self.eta >= 0 else 0.0
        return max(0.0, math.exp(log) - alpha)

    def suggest_lower_share(self, steps: int) -> str:
        """Return as text which settings make the average follow the training weights sooner."""
        if _count_updates(self, steps) == 0:
            return _explain_no_update(self, steps)
        return f"kappa {self.kappa:g}, rho {self.rho:g}; smaller ones leave less"

    def make_initial_buffers(self, theta: Tensor) -> tuple[Tensor, ...]:
        """Return the EMA, the anchor theta_0 and the bias-corrected average."""
        return theta.clone(), theta.clone(), theta.clone()

    def update(
        self, buffers: tuple[Tensor, ...], theta: Tensor, step: Tensor, h: Mapping[str, Tensor]
    ) -> tuple[Tensor, ...]:
        """Update the buffers of members whose update is due; during the burn-in they equal the training weights."""
        # A negative power switches averaging (beta_t = 1) or the correction (alpha_t = 0) off.
        ema, anchor, average = buffers
        steps_after = step - h["burn_in"] if "burn_in" in h else step
        count = h["rho"] + h["gamma"] * torch.clamp(steps_after, min=1)
        beta = torch.where(h["kappa"] < 0, torch.ones_like(count), count ** -h["kappa"])
        alpha = torch.where(h["eta"] < 0, torch.zeros_like(count), count ** -h["eta"])

        # During the burn-in the anchor moves, too, so the correction starts at zero.
        new_ema = _mix(ema, theta, 1.0 - beta, beta)
        corrected = (theta - anchor).mul_(alpha.to(ema.dtype)).add_(new_ema)
        return (
            _apply_due(new_ema, ema, theta, step, h),
            torch.where(steps_after <= 0, theta, anchor) if "burn_in" in h else anchor,
            _apply_due(corrected, average, theta, step, h),
        )

    def compute_weights(self, buffers: tuple[Tensor, ...], theta: Tensor, layout: ParameterLayout) -> Tensor:
        """Return the bias-corrected average of the last update."""
        return buffers[2]


@register("average", "norm_matched")
class NormMatched(Bema):
    """The training weights with each parameter rescaled to its norm under BEMA.

    BEMA extrapolates away from the initial weights and so increases their norms; this control has its scale without
    its direction. `parameters` names the rescaled parameters; null means all.
    """

    parameters: tuple[str, ...] | None = setting(None, help="names of the parameters to rescale; null: all")

    @property
    def source(self) -> Average:
        """BEMA with the same hyperparameters; a subclass is its own source."""
        # A subclass may update other buffers.
        if type(self) is not NormMatched:
            return self
        return Bema(**{field.name: getattr(self, field.name) for field in settings_fields(Bema)})

    def find_new_member_problems(self, parameter_names: Callable[[], Sequence[str]]) -> Iterator[Problem]:
        """Yield a problem if the list of names is empty, and a problem for each unknown name."""
        # The names are empty if the model itself is invalid; then nothing can be checked.
        names = parameter_names() if self.parameters is not None else ()
        allowed = f"null for all parameters, or names of some, such as {', '.join(names[:8])}"
        if names and not self.parameters:
            yield Problem(key="parameters", given=[], message="names no parameter", allowed=allowed)

        for name in self.parameters or () if names else ():
            if name not in names:
                message = f"the model has no parameter {name}"
                close = find_nearest(name, names)
                yield Problem(key="parameters", given=name, message=message, allowed=allowed, nearest=close)

    def compute_weights(self, buffers: tuple[Tensor, ...], theta: Tensor, layout: ParameterLayout) -> Tensor:
        """Return the raw weights with BEMA's norm for each parameter; parameters of norm zero are unchanged."""
        views = layout.split(theta)
        bema_views = layout.split(buffers[2])
        for name, value in views.items():
            if self.parameters is None or name in self.parameters:
                norms = [
                    torch.linalg.vector_norm(weights.reshape(len(weights), -1), dim=1)
                    for weights in (value, bema_views[name])
                ]
                factor = torch.where(norms[0] > 0, norms[1] / norms[0], 1.0)
                views[name] = value * factor.reshape(-1, *[1] * (value.dim() - 1))
        return layout.flatten(views)
