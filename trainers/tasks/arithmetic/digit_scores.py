"""Scores of predictions of several digits at once, over all rows and over rows of one kind.

Shapes: M members, B rows, T positions, V output tokens (ten digits and pad), A supervised positions of a row.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from trainers.tasks.arithmetic.operand_layout import answers
from trainers.tensors.batch import Batch

OUTPUTS = 11  # ten digits and the pad
GENERAL = "exact_match"  # the group of rows that are drawn without a condition


@dataclass(frozen=True)
class GroupedBatch(Batch):
    """A batch whose rows come in groups, one after the other: (metric of their exact match, number of rows)."""

    kinds: tuple[tuple[str, int], ...] = ()


def grouped(batches: dict[str, Batch]) -> GroupedBatch:
    """One batch of several, named by the metric of their exact match."""
    return GroupedBatch(
        torch.cat([batch.tokens for batch in batches.values()], dim=1),
        torch.cat([batch.targets for batch in batches.values()], dim=1),
        kinds=tuple((name, batch.tokens.shape[1]) for name, batch in batches.items()),
    )


def correct(logits_MBTV: Tensor, targets_MBT: Tensor, width: int) -> Tensor:
    """Whether each of the `width` supervised positions of a row is predicted, units first, bool (M, B, A)."""
    return answers(logits_MBTV.argmax(dim=-1) == targets_MBT, targets_MBT, width)


def scores(right: Tensor, batch: GroupedBatch, metrics: Iterable[str]) -> dict[str, Tensor]:
    """Each of `metrics`, (M, 1), of whether positions are right (M, B, A): over general rows, and of every group.

    A group that the batch lacks has NaN.

    exact_match: all supervised positions right, pads included. digit_accuracy: their mean. accuracy_digit_k: the k-th
    one, units first.
    """
    whole = right.all(dim=-1).float()
    found, start = {}, 0
    for name, rows in batch.kinds:
        found[name] = whole[:, start : start + rows].mean(dim=1)
        if name == GENERAL:
            each = right[:, start : start + rows].float().mean(dim=1)
            found["digit_accuracy"] = each.mean(dim=1)
            found.update({f"accuracy_digit_{k + 1}": each[:, k] for k in range(right.shape[-1])})
        start += rows
    nothing = torch.full_like(whole[:, 0], torch.nan)
    return {name: found.get(name, nothing)[:, None] for name in metrics}
