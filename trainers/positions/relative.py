"""Differences of positions, which most encodings are functions of."""

import torch
from torch import Tensor


def differences(length: int, device: torch.device) -> Tensor:
    """i - j of query i and key j, int64 (T, T)."""
    at = torch.arange(length, device=device)
    return at[:, None] - at[None, :]
