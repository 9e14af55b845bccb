"""Loss and accuracy of targets, some of which are masked out.

Shapes: M members, B rows, T positions, V output tokens.
"""

import torch
from torch import Tensor

from trainers.tensors.batch import Batch

IGNORED = -100  # target of a masked position: neither trained nor scored


def make_loss_mask(batch: Batch) -> Tensor:
    """Return a mask of the counted targets, bool (M, B, T): targets that are not IGNORED and have a positive weight."""
    targets = batch.targets
    if targets.dim() == batch.tokens.dim():
        is_scored = targets != IGNORED
    else:  # target distributions, of which none is masked
        is_scored = torch.ones_like(batch.tokens, dtype=torch.bool)
    return is_scored if batch.weight is None else is_scored & (batch.weight > 0)


def compute_loss(logits_MBTV: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the weighted sum of the cross-entropy of the counted targets, and the sum of weights, (M,) each."""
    weight = weigh_targets(batch, logits_MBTV.dtype)
    return -(compute_log_likelihoods(logits_MBTV, batch.targets) * weight).sum(dim=(1, 2)), weight.sum(dim=(1, 2))


def regularize_loss(
    loss_M: Tensor, logits_MBTV: Tensor, batch: Batch, smoothing_M1: Tensor | None, factor_M1: Tensor | None
) -> Tensor:
    """Return a sum of losses with label smoothing (as in torch's `cross_entropy`) and z-loss (arXiv:2204.02311), (M,).

    loss_M: the sum that `compute_loss` returns. smoothing_M1: the share of a target that is spread over all tokens.
    factor_M1: the factor of the z-loss. Both (M, 1); None leaves a term out.
    """
    weight = weigh_targets(batch, logits_MBTV.dtype)
    if smoothing_M1 is not None:
        share_M = smoothing_M1[:, 0].to(logits_MBTV.dtype)
        uniform_loss = -torch.log_softmax(logits_MBTV, dim=-1).mean(dim=-1)
        loss_M = (1.0 - share_M) * loss_M + share_M * (uniform_loss * weight).sum(dim=(1, 2))
    if factor_M1 is not None:
        squares = torch.logsumexp(logits_MBTV, dim=-1).square()
        loss_M = loss_M + factor_M1[:, 0].to(logits_MBTV.dtype) * (squares * weight).sum(dim=(1, 2))
    return loss_M


def weigh_targets(batch: Batch, dtype: torch.dtype) -> Tensor:
    """Return the weight of every target in the loss, (M, B, T)."""
    weight = make_loss_mask(batch).to(dtype)
    return weight if batch.weight is None else weight * batch.weight.to(dtype)


def compute_token_losses(logits_MBTV: Tensor, targets_MBT: Tensor) -> Tensor:
    """Return the cross-entropy of every target, (M, B, T); zero for an IGNORED target."""
    return -(compute_log_likelihoods(logits_MBTV, targets_MBT) * (targets_MBT != IGNORED).to(logits_MBTV.dtype))


def compute_log_likelihoods(logits_MBTV: Tensor, targets: Tensor) -> Tensor:
    """Return the log likelihood of target ids, or its mean under target distributions, (M, B, T).

    The value at an IGNORED target is arbitrary.
    """
    logs = torch.log_softmax(logits_MBTV, dim=-1)
    if targets.dim() == logits_MBTV.dim():
        return (logs * targets.to(logs.dtype)).sum(dim=-1)
    return torch.gather(logs, -1, targets.clamp(min=0)[..., None])[..., 0]


def find_mistakes(logits_MBTV: Tensor, batch: Batch) -> Tensor:
    """Return which counted targets are predicted wrongly, bool (M, B, T).

    The likeliest token is right if it is the target, or, with target distributions, if it has a positive probability.
    Nothing is right where a logit is NaN, which argmax takes for the largest.
    """
    likeliest = logits_MBTV.argmax(dim=-1)
    if batch.targets.dim() == logits_MBTV.dim():
        is_wrong = batch.targets.gather(-1, likeliest[..., None])[..., 0] <= 0
    else:
        is_wrong = likeliest != batch.targets
    is_wrong = is_wrong | logits_MBTV.gather(-1, likeliest[..., None])[..., 0].isnan()
    return is_wrong & make_loss_mask(batch)


def score_accuracy(logits_MBTV: Tensor, batch: Batch) -> dict[str, Tensor]:
    """Return the share of counted targets that are right, and whether all of them are, by metric, (M, B, 1).

    Both are 1 for a row without a counted target.
    """
    wrong = find_mistakes(logits_MBTV, batch).sum(dim=-1, keepdim=True)
    targets = make_loss_mask(batch).sum(dim=-1, keepdim=True)
    return {"accuracy": 1 - wrong / targets.clamp(min=1), "exact_match": (wrong == 0).float()}


# The names in version 2.0.0, which tasks and metrics of users may call.
loss_mask, loss, mistakes, regularize = make_loss_mask, compute_loss, find_mistakes, regularize_loss
