"""Losses apart from tasks: what training minimizes, of one forward pass or several.

Shapes: M members, B rows, T positions, V output tokens. `trainers.optimization.losses` has the shipped ones.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from torch import Tensor

from trainers.settings.fields import Settings
from trainers.tensors.batch import Batch


class RunForward(Protocol):
    """A forward pass: `draw` is its dropout, `record` gets recorded values, `weights` None are those trained."""

    def __call__(  # noqa: D102
        self, draw: int, record: Callable[[str, Tensor], None] | None, weights: Mapping[str, Tensor] | None
    ) -> Tensor: ...


@dataclass(frozen=True, kw_only=True, eq=False)
class LossInputs:
    """The inputs of a loss: some rows of a step, of every member of a pack."""

    batch: Batch
    weights: Mapping[str, Tensor]  # the parameters by name, (M, ...) each; their gradient reaches the optimizer
    step: Tensor  # int64 (), 1 in the first step
    steps: int  # of the whole training
    h: Mapping[str, Tensor]  # the loss's fields with member=True, (M,) each
    target_weights: Tensor  # weight of every target in the loss of the task, 0 where nothing is predicted, (M, B, T)
    task_loss: Callable[[Tensor], tuple[Tensor, Tensor]]  # logits -> sum and weight of the loss without this one, (M,)
    average: Callable[[str], Mapping[str, Tensor]]  # label -> a weight average before this step, without a gradient
    forward: RunForward

    def logits(
        self,
        draw: int = 0,
        recorded: dict[str, list[Tensor]] | None = None,
        weights: Mapping[str, Tensor] | None = None,
    ) -> Tensor:
        """Return the logits (M, B, T, V) of a forward pass; passes with other draws have other dropout.

        recorded: gets the values that modules and encodings record in the pass, (M, ...), in lists by name. weights:
        others than those that are trained, for example of a weight average.
        """
        if recorded is None:
            return self.forward(draw, None, weights)
        return self.forward(draw, lambda name, value: recorded.setdefault(name, []).append(value), weights)


class Loss(Settings, ABC):
    """Base of every loss.

    A field with `member=True` may differ between the members of a pack and reaches `compute` in `h`. `passes` is how
    many forward passes it takes, for estimates.
    """

    passes: ClassVar[int] = 1

    def explain_no_effect(self, is_random: bool) -> str:
        """Return why this loss does not help, empty if it may; a warning if so in the whole sweep.

        is_random: whether a forward pass in training has dropout or other random numbers.
        """
        return ""

    @abstractmethod
    def compute(self, inputs: LossInputs) -> tuple[Tensor, Tensor]:
        """Return a sum over the rows and its weight, (M,) each; training minimizes the sum over the weight.

        With `training.accumulation` the sums and the weights of all slices of a batch are added up before the
        division. Nothing may depend on other members, or wait for a GPU.
        """
