"""Abacus embeddings: a trained vector for each place in a run of digits (McLeish et al., arXiv:2405.17399)."""

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from trainers.errors import Problem
from trainers.positions.context import EMBED_SITE, Pass
from trainers.positions.position import Position, Sizes
from trainers.settings.fields import Settings, setting
from trainers.settings.registry import register
from trainers.tensors.layers import embed
from trainers.tensors.parameters import Parameter


@register("position", "abacus")
class Abacus(Position):
    """A trained vector for each place in a run of digits, units = 1, and vector 0 for all other tokens.

    A bidirectional model counts from the right. A causal model must not depend on later digits and counts from the
    left, as in the paper, whose numbers are written units first. In training a random offset 0..max_offset, one for
    each batch, is added to the places, so that later vectors are trained too. All tokens outside of runs have the same
    vector: if answers are predicted at pads, the pads need places as well (`pads`), which the paper does not need.
    """

    trial_task: ClassVar[Mapping[str, Any]] = {"name": "padded_addition", "width": 4, "train_digits": 2}
    depends_on_adjacency = True  # a run of digits ends at a masked token

    max_offset: int = setting(99, low=0, help="largest random shift of the places of a training batch")
    digits: int = setting(10, low=1, help="input ids below this are digits")
    pads: bool = setting(False, help="count the pads left of a number as its digits")

    @property
    def draws_random_numbers(self) -> bool:
        """Whether training draws random offsets."""
        return self.max_offset > 0

    def find_task_problems(self, task: Settings) -> Iterator[Problem]:
        """Yield problems if the task has another number of digits, or no pad that can be counted."""
        digits, pad = getattr(task, "digits", None), getattr(task, "pad", None)
        if digits != self.digits:
            message = f"takes input ids below {self.digits} as digits, but the task has {digits or 'no'} digits"
            yield Problem(key="position.digits", given=self.digits, message=message)
        elif self.pads and pad != digits:
            message = "the task has no pad with the id after its digits"
            yield Problem(key="position.pads", given=True, message=message, allowed="false")

    def parameters(self, sizes: Sizes) -> tuple[Parameter, ...]:
        """Return vector 0, and vectors for places up to the longest run plus the largest offset."""
        return (
            Parameter(
                name="places", shape=(1 + sizes.longest + self.max_offset, sizes.width), std=sizes.std, decay=False
            ),
        )

    def embed(self, x_MBTD: Tensor, forward_pass: Pass) -> Tensor:
        """Add the vector of each token's place."""
        tokens, causal = forward_pass.tokens, forward_pass.causal
        place = forward_pass.select_queries(self.find_places(tokens, causal, forward_pass.visible, forward_pass.groups))
        # Place 0 marks tokens outside of runs, which are not shifted.
        if forward_pass.noise is not None and forward_pass.training and self.max_offset:
            offset = forward_pass.noise.integers(EMBED_SITE, (1, 1), self.max_offset + 1, shared=True)
            place = torch.where(place > 0, place + offset, 0)
        return x_MBTD + embed(forward_pass.weights["places"], place)

    def find_places(
        self, tokens: Tensor, causal: bool, visible: Tensor | None = None, groups: Tensor | None = None
    ) -> Tensor:
        """Return the place of each token in its run of digits, 0 outside, int64 (..., T).

        A run consists of visible tokens, and ends between two groups that do not see each other.

        >>> Abacus().find_places(torch.tensor([10, 8, 7, 11, 4, 0, 5]), causal=False).tolist()
        [0, 2, 1, 0, 3, 2, 1]
        >>> Abacus().find_places(torch.tensor([10, 8, 7, 11, 4, 0, 5]), causal=True).tolist()
        [0, 1, 2, 0, 1, 2, 3]
        """
        # Flip the rows of a bidirectional model, so that below every run is counted from its first token.
        is_digit = tokens < self.digits + self.pads
        is_digit = is_digit if visible is None else is_digit & visible
        is_digit = is_digit if causal else is_digit.flip(-1)

        # The place is the distance from the last token before the run.
        position = torch.arange(1, is_digit.shape[-1] + 1, device=is_digit.device)
        run_start = torch.where(is_digit, 0, position)
        if groups is not None:
            # A digit begins a run if it does not see the group of the digit before it.
            ordered = groups if causal else groups.flip(-1)
            previous = functional.pad(ordered[..., :-1], (1, 0))
            is_boundary = (ordered != previous) & (ordered != 0) & (previous != 0)
            run_start = torch.where(is_digit & is_boundary, position - 1, run_start)
        place = position - run_start.cummax(dim=-1).values
        return place if causal else place.flip(-1)
