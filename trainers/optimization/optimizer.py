"""Optimizers: how the gradient of a step changes the weights of every member of a pack; clipping per member.

Shapes: M members, P parameters of one member. `trainers.optimization.optimizers` has the shipped ones.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.random import Stream
from trainers.settings.fields import Settings
from trainers.tensors.parameters import Parameter, ParameterLayout


@dataclass(frozen=True, kw_only=True, eq=False)
class Update:
    """The inputs of an optimizer at a step."""

    theta: Tensor  # weights, (M, P)
    gradient: Tensor  # (M, P), clipped
    state: Mapping[str, Tensor]  # the optimizer's own tensors, as `start` or the last update returned them
    step: Tensor  # int64 (), 1 for the first update
    rate: Tensor  # learning rate after its schedule, float64 (M, 1)
    h: Mapping[str, Tensor]  # hyperparameters of `training` and of the optimizer, (M, 1) each
    layout: ParameterLayout  # the parameters that the P columns belong to
    decay_mask: Tensor | None  # 1 where weight decay acts, else 0, (P,); None if it acts everywhere
    seeds_M: Tensor
    compute_gradient: Callable[[Tensor], Tensor]  # the clipped gradient of the same batch at other weights (M, P)

    @property
    def stream(self) -> Stream:
        """Random numbers keyed by seed and step; `stream.normal(site, shape)` is (M, *shape)."""
        return Stream(self.seeds_M, "optimizer", self.step)

    def decayed_theta(self) -> Tensor:
        """Return the weights after decoupled weight decay, theta (1 - rate weight_decay), as a new tensor."""
        lost, dtype = (self.rate * self.h["weight_decay"]).to(self.theta.dtype), self.theta.dtype
        return self.theta * (1.0 - (lost if self.decay_mask is None else lost * self.decay_mask.to(dtype)))


class Optimizer(Settings, ABC):
    """Base of every optimizer.

    A field with `member=True` may differ between members and reaches `update` in `h`. `training_keys` are those of
    AdamW's keys of `training` that it uses, too.
    """

    training_keys: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def start(self, theta: Tensor, layout: ParameterLayout) -> dict[str, Tensor]:
        """Return the state before the first step by name, tensors (M, ...); `theta` may be on torch's meta device.

        What has columns other than those of `theta` should have the name of its parameter in its own.
        """

    @abstractmethod
    def update(self, inputs: Update) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the new weights (M, P) and the new state; write into no tensor of `inputs`."""

    def checked(self, state: Mapping[str, Tensor]) -> list[Tensor]:
        """Return the tensors of the state that must be finite; a member fails when one is not. By default all."""
        return list(state.values())

    def operations(self, gradient: float, parameters: Sequence[Parameter]) -> float:
        """Return the operations of a step of one member for estimates; a gradient takes `gradient`."""
        return gradient

    def problems_of_new(self, parameters: Callable[[], Sequence[Parameter]]) -> Iterator[Problem]:
        """Yield problems for which only a new configuration is refused; its model has these parameters."""
        return iter(())


def clip_gradient(gradient: Tensor, limit: Tensor) -> Tensor:
    """Scale each member's gradient to a norm of at most `limit` (M, 1), as `clip_grad_norm_` does."""
    norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
    return gradient * torch.clamp(limit.to(gradient.dtype) / (norm + 1e-6), max=1.0)
