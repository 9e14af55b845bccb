"""The base class of optimizers, and gradient clipping for each member.

Shapes: M members, P parameters of a member. `trainers.optimization.optimizers` has the shipped optimizers.
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
    state: Mapping[str, Tensor]  # the tensors that `make_initial_state` or the last update returned
    step: Tensor  # int64 (), 1 for the first update
    rate: Tensor  # learning rate after its schedule, float64 (M, 1)
    hyperparameters: Mapping[str, Tensor]  # of `training` and of the optimizer, (M, 1) each
    layout: ParameterLayout  # which of the P columns belong to which parameter
    decay_mask: Tensor | None  # 1 where weight decay acts, else 0, (P,); None if it acts everywhere
    seeds_M: Tensor
    compute_gradient: Callable[[Tensor], Tensor]  # the clipped gradient of the same batch at other weights (M, P)

    @property
    def stream(self) -> Stream:
        """Random numbers keyed by seed and step; `stream.normal(site, shape)` is (M, *shape)."""
        return Stream(self.seeds_M, "optimizer", self.step)

    @property
    def h(self) -> Mapping[str, Tensor]:
        """The name of `hyperparameters` in version 2.0.0, for classes of users."""
        return self.hyperparameters

    def decayed_theta(self) -> Tensor:
        """Return the weights after decoupled weight decay, theta (1 - rate weight_decay), as a new tensor."""
        dtype = self.theta.dtype
        share = (self.rate * self.hyperparameters["weight_decay"]).to(dtype)
        return self.theta * (1.0 - (share if self.decay_mask is None else share * self.decay_mask.to(dtype)))


class Optimizer(Settings, ABC):
    """Base of every optimizer.

    A field with `member=True` may differ between members; `update` gets it in `inputs.hyperparameters`. training_keys:
    which of the keys `betas` and `epsilon` of `training` it uses.
    """

    training_keys: ClassVar[tuple[str, ...]] = ()
    former_names = Settings.former_names | {
        "start": "make_initial_state",
        "checked": "list_checked_tensors",
        "operations": "count_operations",
        "problems_of_new": "find_new_member_problems",
    }

    @abstractmethod
    def make_initial_state(self, theta: Tensor, layout: ParameterLayout) -> dict[str, Tensor]:
        """Return the state before the first step, tensors (M, ...) by name; `theta` may be on torch's meta device.

        A tensor for a single parameter should have the name of the parameter in its name. `theta.new_zeros` needs less
        time than `torch.zeros_like`, which imports sympy on the meta device.
        """

    @abstractmethod
    def update(self, inputs: Update) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the new weights (M, P) and the new state, without changing tensors of `inputs`."""

    def list_checked_tensors(self, state: Mapping[str, Tensor]) -> list[Tensor]:
        """Return the tensors of the state whose non-finite entries make the member fail; by default all."""
        return list(state.values())

    def count_operations(self, gradient: float, parameters: Sequence[Parameter]) -> float:
        """Return the estimated operations of a step of a member; gradient: the operations of its gradient."""
        return gradient

    def find_new_member_problems(self, parameters: Callable[[], Sequence[Parameter]]) -> Iterator[Problem]:
        """Yield problems that reject a new configuration, but not a recorded one; parameters: of its model."""
        return iter(())


def clip_gradient(gradient: Tensor, limit: Tensor) -> Tensor:
    """Return the gradient (M, P) scaled to a norm of at most `limit` (M, 1) for each member, as `clip_grad_norm_`."""
    norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
    # As in torch, 1e-6 keeps a gradient of zero from becoming NaN.
    return gradient * torch.clamp(limit.to(gradient.dtype) / (norm + 1e-6), max=1.0)
