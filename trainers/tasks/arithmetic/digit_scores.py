"""Scores of predicted digits, over general rows and over groups of rows.

Shapes: M members, B rows, T positions, V output tokens (ten digits and pad), A supervised positions of a row.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from trainers.tasks.arithmetic.operand_layout import answers
from trainers.tensors.batch import Batch

OUTPUTS = 11  # ten digits and the pad
GENERAL = "exact_match"  # the group of rows drawn without a condition


@dataclass(frozen=True)
class GroupedBatch(Batch):
    """A batch of consecutive groups of rows; kinds: (metric of the exact match, number of rows) of each group."""

    kinds: tuple[tuple[str, int], ...] = ()


def group_batches(batches: dict[str, Batch]) -> GroupedBatch:
    """Concatenate batches, given by the metric of their exact match."""
    return GroupedBatch(
        torch.cat([batch.tokens for batch in batches.values()], dim=1),
        torch.cat([batch.targets for batch in batches.values()], dim=1),
        kinds=tuple((name, batch.tokens.shape[1]) for name, batch in batches.items()),
    )


def correct_digits(logits_MBTV: Tensor, targets_MBT: Tensor, width: int) -> Tensor:
    """Return whether each of the `width` supervised positions of a row is right, units first, bool (M, B, A)."""
    return answers(logits_MBTV.argmax(dim=-1) == targets_MBT, targets_MBT, width)


def compute_scores(right: Tensor, batch: GroupedBatch, metrics: Iterable[str]) -> dict[str, Tensor]:
    """Return each of `metrics`, (M, 1), from the right positions (M, B, A); NaN for groups that the batch lacks.

    exact_match: all supervised positions right, pads included. digit_accuracy: their mean. accuracy_digit_k: the k-th
    one, units first.
    """
    exact = right.all(dim=-1).float()
    scores, start = {}, 0
    for name, rows in batch.kinds:
        scores[name] = exact[:, start : start + rows].mean(dim=1)
        if name == GENERAL:
            digits = right[:, start : start + rows].float().mean(dim=1)
            scores["digit_accuracy"] = digits.mean(dim=1)
            scores.update({f"accuracy_digit_{k + 1}": digits[:, k] for k in range(right.shape[-1])})
        start += rows
    missing = torch.full_like(exact[:, 0], torch.nan)
    return {name: scores.get(name, missing)[:, None] for name in metrics}
