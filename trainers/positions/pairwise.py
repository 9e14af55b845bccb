"""Pairwise vectors on the keys, for RPE, UPE and significance (Sabbaghi et al., arXiv:2406.01895, eq. 2.1).

    A_ij = softmax_j((W_Q z_i) . (W_K z_j + p_ij) / sqrt(K)),

with p_ij a row of a trained table, which each layer has and its heads share. Shapes: M members, B rows, H heads,
T queries, J keys, K head width, R rows of the table.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from trainers.errors import Problem
from trainers.positions.position import Sizes
from trainers.settings.fields import Settings
from trainers.tensors.parameters import Parameter
from trainers.tensors.precision import matmul


def declare_pairwise_table(name: str, rows: int, sizes: Sizes) -> tuple[Parameter, ...]:
    """Return the table of layer `name`, with weight decay."""
    return (Parameter(name=f"{name}.pairs", shape=(rows, sizes.head_width), std=sizes.std),)


def compute_pairwise_scores(q_MBHTK: Tensor, table_MRK: Tensor, rows: Tensor) -> Tensor:
    """Return q_i . table[rows_ij] / sqrt(K) for query i and key j, (M, B, H, T, J).

    rows: (T, J), or broadcastable to (M, B, H, T, J).
    """
    # One product with the table and a look-up: a vector for each pair of tokens would take K times the memory.
    m, b, h, t, k = q_MBHTK.shape
    products = matmul(q_MBHTK.reshape(m, b * h * t, k), table_MRK.mT).reshape(m, b, h, t, -1)
    return torch.gather(products, -1, rows.expand(m, b, h, t, rows.shape[-1])) / math.sqrt(k)


def find_multiplier_problems(uniform: int, task: Settings) -> Iterator[Problem]:
    """Yield a problem if the number of uniform positions differs from the task's number of multiplier digits."""
    digits = getattr(task, "multiplier_digits", None)
    if digits != uniform:
        message = f"{uniform} uniform positions, but the task has {digits or 'no'} multiplier digits"
        yield Problem(key="position.uniform", given=uniform, message=message)
