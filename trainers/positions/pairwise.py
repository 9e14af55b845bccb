"""Pairwise vectors on the keys: what RPE and UPE share (Sabbaghi et al., arXiv:2406.01895, eq. 2.1).

    A_ij = softmax_j((W_Q z_i) . (W_K z_j + p_ij) / sqrt(K)),

with p_ij a row of one trained table for each layer, shared by its heads. Which row is a fixed matrix of positions.
"""

import math

import torch
from torch import Tensor

from trainers.parameters import Parameter


def pairwise_table(name: str, rows: int, head_width: int, std: float) -> tuple[Parameter, ...]:
    """The table of layer `name`; weight decay acts on it."""
    return (Parameter(name=f"{name}.pairs", shape=(rows, head_width), std=std),)


def pairwise_scores(q_MBHTK: Tensor, table_MRK: Tensor, rows_TT: Tensor) -> Tensor:
    """q_i . table[rows_ij] / sqrt(K), (M, B, H, T, T)."""
    m, b, h, t, k = q_MBHTK.shape
    against = torch.bmm(q_MBHTK.reshape(m, b * h * t, k), table_MRK.mT).reshape(m, b, h, t, -1)
    return torch.gather(against, -1, rows_TT.expand(m, b, h, t, t)) / math.sqrt(k)


def relative_rows(length: int, longest: int, device: torch.device) -> Tensor:
    """Row i - j + longest - 1 for the pair (i, j): 2 longest - 1 rows, none clipped, (T, T)."""
    at = torch.arange(length, device=device)
    return at[:, None] - at[None, :] + longest - 1
