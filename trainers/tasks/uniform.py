"""Scores of a model that should predict the uniform distribution over allowed tokens.

Shapes: M members, B rows, T positions, L lengths, V output tokens.
"""

import torch
from torch import Tensor
from torch.nn import functional

from trainers.tensors.device_constants import constant
from trainers.tensors.masked import below_largest, exponentials_

METRICS = {
    "total_variation": "minimize",
    "invalid_mass": "minimize",
    "invalid_top1": "minimize",
    "kl": "minimize",
    "margin": "maximize",
    "valid_uniformity": "minimize",
}


def uniform_over(allowed: Tensor) -> Tensor:
    """The uniform distribution over the allowed tokens of (..., V); all zero where none is allowed."""
    share = allowed.float()
    return share.div_(share.sum(dim=-1, keepdim=True).clamp_min_(1.0))


def classes_first(values_MBTV: Tensor, lengths: tuple[int, ...]) -> Tensor:
    """Values at the last position of each length, (M, V, L, B), contiguous where the dtype is float32."""
    values_MVTB = values_MBTV.permute(0, 3, 2, 1)
    if lengths == tuple(range(1, values_MVTB.shape[2] + 1)):
        return values_MVTB.float().contiguous()
    return values_MVTB.index_select(2, constant(tuple(s - 1 for s in lengths), values_MBTV.device)).float().contiguous()


def row_scores(logits_MVLB: Tensor, allowed_MVLB: Tensor) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """Each metric of METRICS for every row and length, (M, B, L), and the log mass on allowed and on other tokens.

    allowed: 1.0 or 0.0. total_variation to the uniform distribution over allowed tokens; invalid_mass, the probability
    of the others; invalid_top1, whether one of them is more probable than every allowed one; kl, KL(target || model);
    margin, the smallest allowed logit minus the largest other one; valid_uniformity, total variation within the allowed
    tokens alone. Allowed tokens and the others are each measured from their own largest logit: masses below the
    smallest float do not become zero in the logarithms. Sums run over whole planes of rows, which is fast on a CPU.
    """
    other = 1.0 - allowed_MVLB
    largest, below = below_largest(logits_MVLB, other, dim=1)
    largest_other, below_other = below_largest(logits_MVLB, allowed_MVLB, dim=1)
    below.mul_(allowed_MVLB)
    count = allowed_MVLB.sum(dim=1, keepdim=True)
    mean, smallest = below.sum(dim=1, keepdim=True) / count, below.amin(dim=1, keepdim=True)
    each, each_other = exponentials_(below, allowed_MVLB), exponentials_(below_other, other)
    mass = each.sum(dim=1, keepdim=True)  # of allowed tokens, where the largest has 1
    odds = largest - largest_other + torch.log(mass) - torch.log(each_other.sum(dim=1, keepdim=True))
    log_valid, log_invalid = functional.logsigmoid(odds), functional.logsigmoid(-odds)
    invalid, share = torch.exp(log_invalid), torch.exp(log_valid) / mass
    # Of two distributions of equal mass the half sum of distances is the sum of where the first one has more.
    more = (each - 1.0 / (share * count)).clamp_min_(0.0).sum(dim=1, keepdim=True) * share
    more_within = (each - mass / count).clamp_min_(0.0).sum(dim=1, keepdim=True) / mass
    scores = {
        "total_variation": invalid + more,
        "invalid_mass": invalid,
        "invalid_top1": (largest_other > largest).float(),
        "kl": torch.log(mass / count) - mean - log_valid,
        "margin": largest - largest_other + smallest,
        "valid_uniformity": more_within,
    }
    rows = {name: value[:, 0].transpose(1, 2) for name, value in scores.items()}
    return rows, log_valid[:, 0].transpose(1, 2), log_invalid[:, 0].transpose(1, 2)
