"""Learning-rate schedules: a factor on the learning rate as a function of the training step.

A sweep chooses one by its registered name, `training.schedule: {name: cosine, warmup: 50}` (default: constant). Every
step multiplies the learning rate of each member by its `factor` (`training/step.py`). Every schedule may begin with a
linear warm-up, given in steps or as a share of all steps.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.settings.fields import Settings, setting
from trainers.settings.registry import register


class Schedule(Settings, ABC):
    """Base of every schedule."""

    former_names = Settings.former_names | {"step_problems": "find_step_problems"}

    warmup: int = setting(0, low=0, help="steps of linear warm-up")
    warmup_share: float = setting(0.0, low=0.0, high=1.0, help="linear warm-up as a share of all steps, such as 0.05")

    def find_combination_problems(self) -> Iterator[Problem]:
        """Yield a problem if the warm-up is given twice."""
        if self.warmup and self.warmup_share:
            message = "the warm-up is also given in steps"
            yield Problem(key="warmup_share", given=self.warmup_share, message=message, allowed="only one of them")

    def warmup_steps(self, steps: int) -> int:
        """Return the number of warm-up steps of a training of `steps` steps."""
        return self.warmup or round(self.warmup_share * steps)

    @abstractmethod
    def factor(self, step: Tensor, steps: int) -> Tensor:
        """Return the factor on the learning rate at `step` (1 for the first update) of `steps`, float64 ()."""

    def find_step_problems(self, steps: int) -> Iterator[Problem]:
        """Yield problems of this schedule with a training of `steps` steps."""
        if self.warmup > steps:
            message = f"{self.warmup} is more than training.steps"
            yield Problem(key="warmup", given=self.warmup, message=message, allowed=f"<= {steps}")


def _apply_warmup(step: Tensor, warmup: int, factor: Tensor) -> Tensor:
    """Return the factor times the progress of a warm-up of `warmup` steps, which is 1 after it."""
    return factor * torch.clamp(step.double() / warmup, max=1.0) if warmup else factor


@register("schedule", "constant")
class Constant(Schedule):
    """The full learning rate at every step, after an optional linear warm-up."""

    def factor(self, step: Tensor, steps: int) -> Tensor:
        """Return the factor at `step` (1 for the first update) of `steps`, a float64 scalar."""
        return _apply_warmup(step, self.warmup_steps(steps), torch.ones((), dtype=torch.float64, device=step.device))


class Decaying(Schedule):
    """A schedule that decays from 1 after the warm-up to `final`, and then stays constant."""

    final: float = setting(0.0, low=0.0, high=1.0, help="factor at the end of the decay")
    decay_steps: int | None = setting(
        None, low=1, help="step at which the decay ends, before or after the last one; null: the last step"
    )

    def find_step_problems(self, steps: int) -> Iterator[Problem]:
        """Yield a problem if the warm-up is too long, and if the decay ends before the warm-up."""
        yield from super().find_step_problems(steps)
        warmup = self.warmup_steps(steps)
        if self.decay_steps is not None and 0 < self.decay_steps <= warmup <= steps:
            message = f"the decay ends before the warm-up of {warmup} steps"
            yield Problem(key="decay_steps", given=self.decay_steps, message=message, allowed=f"> {warmup}")

    def decay_progress(self, step: Tensor, steps: int) -> Tensor:
        """Return the progress of the decay at `step`: 0 at the end of the warm-up, 1 at the end of the decay."""
        warmup = self.warmup_steps(steps)
        # At least 1: a decay that ends with the warm-up would divide by zero.
        length = max((self.decay_steps or steps) - warmup, 1)
        return torch.clamp((step.double() - warmup) / length, min=0.0, max=1.0)


@register("schedule", "linear")
class Linear(Decaying):
    """Linear decay from 1 after the warm-up to `final` at the last step, or at `decay_steps`."""

    def factor(self, step: Tensor, steps: int) -> Tensor:
        """Return the factor at `step` (1 for the first update) of `steps`, a float64 scalar."""
        warmup = self.warmup_steps(steps)
        return _apply_warmup(step, warmup, 1.0 + (self.final - 1.0) * self.decay_progress(step, steps))


@register("schedule", "cosine")
class Cosine(Decaying):
    """Half a cosine from 1 after the warm-up to `final` at the last step, or at `decay_steps`.

    Source: Loshchilov and Hutter, arXiv:1608.03983.
    """

    def factor(self, step: Tensor, steps: int) -> Tensor:
        """Return the factor at `step` (1 for the first update) of `steps`, a float64 scalar."""
        warmup = self.warmup_steps(steps)
        wave = 0.5 * (1.0 + torch.cos(math.pi * self.decay_progress(step, steps)))
        return _apply_warmup(step, warmup, self.final + (1.0 - self.final) * wave)
