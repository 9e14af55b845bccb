"""Learning-rate schedules: a factor on the member's learning rate as a function of the training step.

Every schedule may begin with a linear warm-up over its first `warmup` steps.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor

from trainers.config.registry import register
from trainers.config.settings import Settings, setting
from trainers.errors import Problem


class Schedule(Settings, ABC):
    """Base of every schedule."""

    warmup: int = setting(0, low=0, help="steps of linear warm-up")

    @abstractmethod
    def factor(self, step: Tensor, steps: int) -> Tensor:
        """Factor at `step` (1 for the first update) of `steps`, a float64 scalar."""

    def step_problems(self, steps: int) -> Iterator[Problem]:
        """Why this schedule does not fit a training of so many steps."""
        if self.warmup > steps:
            message = f"{self.warmup} is more than steps"
            yield Problem(key="warmup", given=self.warmup, message=message, allowed=f"<= {steps}")


def _warmed(step: Tensor, warmup: int, factor: Tensor) -> Tensor:
    return factor * torch.clamp(step.double() / warmup, max=1.0) if warmup else factor


@register("schedule", "constant")
class Constant(Schedule):
    """The full learning rate at every step, after an optional linear warm-up."""

    def factor(self, step: Tensor, steps: int) -> Tensor:
        """Factor at `step` (1 for the first update) of `steps`, a float64 scalar."""
        return _warmed(step, self.warmup, torch.ones((), dtype=torch.float64, device=step.device))


@register("schedule", "linear")
class Linear(Schedule):
    """Linear decay from 1 after the warm-up to `final` at the last step."""

    final: float = setting(0.0, low=0.0, high=1.0, help="factor at the last step")

    def factor(self, step: Tensor, steps: int) -> Tensor:
        """Factor at `step` (1 for the first update) of `steps`, a float64 scalar."""
        return _warmed(step, self.warmup, 1.0 + (self.final - 1.0) * _decayed(step, self.warmup, steps))


@register("schedule", "cosine")
class Cosine(Schedule):
    """Half a cosine from 1 after the warm-up to `final` at the last step (Loshchilov and Hutter, arXiv:1608.03983)."""

    final: float = setting(0.0, low=0.0, high=1.0, help="factor at the last step")

    def factor(self, step: Tensor, steps: int) -> Tensor:
        """Factor at `step` (1 for the first update) of `steps`, a float64 scalar."""
        wave = 0.5 * (1.0 + torch.cos(math.pi * _decayed(step, self.warmup, steps)))
        return _warmed(step, self.warmup, self.final + (1.0 - self.final) * wave)


def _decayed(step: Tensor, warmup: int, steps: int) -> Tensor:
    """How far the decay has come at `step`: 0 at the end of the warm-up, 1 at the last step."""
    return torch.clamp((step.double() - warmup) / max(steps - warmup, 1), min=0.0, max=1.0)
