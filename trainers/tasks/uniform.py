"""Scores of models that should predict the uniform distribution over allowed tokens.

Shapes: M members, B rows, T positions, L lengths, V output tokens.
"""

import torch
from torch import Tensor
from torch.nn import functional

from trainers.tensors.device_constants import make_constant
from trainers.tensors.masked import subtract_largest, weighted_exp_

METRICS = {
    "total_variation": "minimize",
    "invalid_mass": "minimize",
    "invalid_top1": "minimize",
    "kl": "minimize",
    "margin": "maximize",
    "valid_uniformity": "minimize",
}


def make_uniform(allowed: Tensor) -> Tensor:
    """Return the uniform distribution over the allowed tokens of (..., V); all zero if none is allowed."""
    share = allowed.float()
    return share.div_(share.sum(dim=-1, keepdim=True).clamp_min_(1.0))


def select_lengths(values_MBTV: Tensor, lengths: tuple[int, ...]) -> Tensor:
    """Return values at the last position of each length, float32 (M, V, L, B), contiguous."""
    values_MVTB = values_MBTV.permute(0, 3, 2, 1)
    if lengths != tuple(range(1, values_MVTB.shape[2] + 1)):
        values_MVTB = values_MVTB.index_select(2, make_constant(tuple(s - 1 for s in lengths), values_MBTV.device))
    return values_MVTB.float().contiguous()


def mask_last_positions(tokens_MBT: Tensor, lengths: tuple[int, ...]) -> Tensor:
    """Return a mask of the last position of each length, bool (M, B, T, L)."""
    position_T = torch.arange(1, tokens_MBT.shape[-1] + 1, device=tokens_MBT.device)
    return (position_T[:, None] == make_constant(lengths, tokens_MBT.device)).expand(*tokens_MBT.shape, len(lengths))


def score_uniformity(logits_MVLB: Tensor, allowed_MVLB: Tensor) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """Return each of METRICS for every row and length, (M, B, L), and the log mass on allowed and on other tokens.

    allowed_MVLB: 1.0 or 0.0. total_variation: to the uniform distribution over allowed tokens. invalid_mass: the
    probability of other tokens. invalid_top1: whether the likeliest token is not allowed. kl: KL(target || model).
    margin: smallest allowed logit minus largest other logit. valid_uniformity: total variation within the allowed
    tokens.
    """
    # Allowed and other tokens are handled apart: a tiny mass of the others would vanish beside the allowed ones.
    other_MVLB = 1.0 - allowed_MVLB
    largest_allowed, differences_allowed = subtract_largest(logits_MVLB, other_MVLB, dim=1)
    largest_other, differences_other = subtract_largest(logits_MVLB, allowed_MVLB, dim=1)
    differences_allowed.mul_(allowed_MVLB)
    count = allowed_MVLB.sum(dim=1, keepdim=True)
    mean = differences_allowed.sum(dim=1, keepdim=True) / count
    smallest = differences_allowed.amin(dim=1, keepdim=True)

    # log P(allowed) is the log-sigmoid of the difference between the log-sum-exps of both sides. Unlike the logarithm
    # of a probability, it is exact for any mass.
    exp_allowed = weighted_exp_(differences_allowed, allowed_MVLB)
    exp_other = weighted_exp_(differences_other, other_MVLB)
    mass_allowed = exp_allowed.sum(dim=1, keepdim=True)
    mass_other = exp_other.sum(dim=1, keepdim=True)
    log_odds = largest_allowed - largest_other + torch.log(mass_allowed) - torch.log(mass_other)
    log_valid = functional.logsigmoid(log_odds)
    log_invalid = functional.logsigmoid(-log_odds)
    invalid = torch.exp(log_invalid)
    share = torch.exp(log_valid) / mass_allowed

    # For distributions of equal mass, half the sum of absolute differences is the sum of the positive differences. The
    # probability of an allowed token is share * exp_allowed, its target 1 / count.
    excess = (exp_allowed - 1.0 / (share * count)).clamp_min_(0.0).sum(dim=1, keepdim=True) * share
    excess_within = (exp_allowed - mass_allowed / count).clamp_min_(0.0).sum(dim=1, keepdim=True) / mass_allowed
    scores = {
        "total_variation": invalid + excess,
        "invalid_mass": invalid,
        "invalid_top1": (~(largest_allowed >= largest_other)).float(),  # 1 also where a logit is NaN
        "kl": torch.log(mass_allowed / count) - mean - log_valid,
        "margin": largest_allowed - largest_other + smallest,
        "valid_uniformity": excess_within,
    }
    rows = {name: value[:, 0].transpose(1, 2) for name, value in scores.items()}
    return rows, log_valid[:, 0].transpose(1, 2), log_invalid[:, 0].transpose(1, 2)
