"""Scores of a model that should predict the uniform distribution over allowed tokens."""

import torch
from torch import Tensor

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


def row_scores(logits: Tensor, allowed: Tensor) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """Each metric of METRICS for every row of (..., V) logits, and the log mass on allowed and on other tokens.

    total_variation to the uniform distribution over allowed tokens; invalid_mass, the probability of the others;
    invalid_top1, whether the most probable token is one of them; kl, KL(target || model); margin, the smallest allowed
    logit minus the largest other one; valid_uniformity, total variation within the allowed tokens alone. Computed from
    log-probabilities: masses below the smallest float do not become zero in the logarithms.
    """
    logits = logits.float()
    target = uniform_over(allowed)
    logs = torch.log_softmax(logits, dim=-1)
    infinity = torch.full((), torch.inf, device=logits.device)
    log_valid = torch.logsumexp(torch.where(allowed, logs, -infinity), dim=-1)
    log_invalid = torch.logsumexp(torch.where(allowed, -infinity, logs), dim=-1)
    within = torch.where(allowed, torch.exp(logs - log_valid[..., None]), torch.zeros_like(logs))
    smallest = torch.where(allowed, logits, infinity).amin(dim=-1)
    largest = torch.where(allowed, -infinity, logits).amax(dim=-1)
    scores = {
        "total_variation": 0.5 * (torch.exp(logs) - target).abs().sum(dim=-1),
        "invalid_mass": torch.exp(log_invalid),
        "invalid_top1": 1.0 - torch.gather(allowed, -1, logits.argmax(dim=-1, keepdim=True))[..., 0].float(),
        "kl": (target * (torch.log(target.clamp_min(1e-30)) - logs)).sum(dim=-1),
        "margin": smallest - largest,
        "valid_uniformity": 0.5 * (within - target).abs().sum(dim=-1),
    }
    return scores, log_valid, log_invalid
