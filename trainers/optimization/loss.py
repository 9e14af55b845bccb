"""The base class of losses that replace the loss of a task, which may use several forward passes.

Shapes: M members, B rows, T positions, V output tokens. `trainers.optimization.losses` has the shipped losses.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from torch import Tensor

from trainers.settings.fields import Settings
from trainers.tensors.batch import Batch


class RunForward(Protocol):
    """A forward pass. draw: number of its dropout. record: gets recorded values. weights: None for trained weights."""

    def __call__(  # noqa: D102
        self, draw: int, record: Callable[[str, Tensor], None] | None, weights: Mapping[str, Tensor] | None
    ) -> Tensor: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class LossInputs:
    """The inputs of a loss at a step: rows of every member of a pack."""

    batch: Batch
    weights: Mapping[str, Tensor]  # the trained parameters by name, (M, ...) each
    step: Tensor  # int64 (), 1 in the first step
    steps: int  # number of training steps
    hyperparameters: Mapping[str, Tensor]  # the loss's fields with member=True, (M,) each
    target_weights: Tensor  # weight of every target in the loss of the task, (M, B, T); 0 for masked targets
    task_loss: Callable[[Tensor], tuple[Tensor, Tensor]]  # logits -> sum and weight of the task's loss, (M,) each
    average: Callable[[str], Mapping[str, Tensor]]  # label -> weights of an average before this step, no gradient
    forward: RunForward

    @property
    def h(self) -> Mapping[str, Tensor]:
        """The name of `hyperparameters` in version 2.0.0, for classes of users."""
        return self.hyperparameters

    def logits(
        self,
        draw: int = 0,
        recorded: dict[str, list[Tensor]] | None = None,
        weights: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """Return the logits (M, B, T, V) of a forward pass.

        draw: the number of the pass; passes with different numbers have independent dropout. recorded: gets the values
        that modules and encodings record in the pass, (M, ...), in lists by name. weights: by default the trained
        weights; others for example from `average`.
        """
        if recorded is None:
            return self.forward(draw, None, weights)
        return self.forward(draw, lambda name, value: recorded.setdefault(name, []).append(value), weights)


class Loss(Settings, ABC):
    """Base of every loss.

    A field with `member=True` may differ between the members of a pack; `compute` gets it in
    `inputs.hyperparameters`. passes: the number of forward passes, for estimates.
    """

    passes: ClassVar[int] = 1

    def explain_no_effect(self, is_random: bool) -> str:
        """Return why this loss has no effect, "" if it has one; shown if it has no effect in any configuration.

        is_random: whether a forward pass in training has dropout or other random numbers.
        """
        return ""

    @abstractmethod
    def compute(self, inputs: LossInputs) -> tuple[Tensor, Tensor]:
        """Return a sum over the rows and its weight, (M,) each; training minimizes the sum divided by the weight.

        With `training.accumulation` the sums and the weights of all slices of a batch are added up before the
        division. A member's values must not depend on other members, and the code must not wait for a GPU.
        """
