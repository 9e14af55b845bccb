"""Targets of which some positions do not count: their loss, and which predictions are right.

Shapes: M members, B rows, T positions, V output tokens.
"""

import torch
from torch import Tensor

from trainers.tensors.batch import Batch

IGNORED = -100  # target of a position that is neither trained nor scored


def counted(batch: Batch) -> Tensor:
    """Whether the target at each position counts, bool (M, B, T): distributions do, unless they weigh nothing."""
    targets = batch.targets
    scored = (
        targets != IGNORED if targets.dim() == batch.tokens.dim() else torch.ones_like(batch.tokens, dtype=torch.bool)
    )
    return scored if batch.weight is None else scored & (batch.weight > 0)


def loss(logits_MBTV: Tensor, targets_MBT: Tensor) -> tuple[Tensor, Tensor]:
    """Cross-entropy of each member summed over its supervised positions, and their number, (M,)."""
    losses = token_losses(logits_MBTV, targets_MBT)
    return losses.sum(dim=(1, 2)), (targets_MBT != IGNORED).to(logits_MBTV.dtype).sum(dim=(1, 2))


def token_losses(logits_MBTV: Tensor, targets_MBT: Tensor) -> Tensor:
    """Cross-entropy at every position, (M, B, T); zero where the target does not count."""
    logs = torch.log_softmax(logits_MBTV, dim=-1)
    scored = targets_MBT != IGNORED
    picked = torch.gather(logs, -1, torch.where(scored, targets_MBT, 0)[..., None])[..., 0]
    return -(picked * scored.to(logs.dtype))


def mistakes(logits_MBTV: Tensor, targets_MBT: Tensor) -> Tensor:
    """Whether each position that counts is predicted wrongly, bool (M, B, T)."""
    return (logits_MBTV.argmax(dim=-1) != targets_MBT) & (targets_MBT != IGNORED)
