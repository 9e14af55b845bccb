"""Normalised queries and keys: fox and rope with `qk_norm` against torch.nn.functional.normalize."""

import math

import pytest
import torch
from torch.nn.functional import normalize

from tests.trainers.positions.passes import B, E, H, M, T, attended, heads_of, layer, projected
from trainers.positions.fox import Fox
from trainers.positions.position import Position
from trainers.positions.rope import Rope


def rotated(rows: torch.Tensor) -> torch.Tensor:
    """Rows turned by their position, as complex numbers."""
    half = torch.complex(*rows.chunk(2, dim=-1))
    angle = torch.arange(T)[:, None] * 10000.0 ** (-torch.arange(0, E, 2, dtype=torch.float64) / E)
    turned = half * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([turned.real, turned.imag], dim=-1)


@pytest.mark.parametrize("position", [Fox(qk_norm=True), Rope(qk_norm=True)], ids=["fox", "rope"])
def test_queries_and_keys_have_the_norm_of_ones(position: Position) -> None:
    weights, x = layer(position)
    mixed = torch.empty(M, B, H, T, E, dtype=torch.float64)
    for m in range(M):
        for b in range(B):
            for h in range(H):
                q, k, v = heads_of(weights, x, m, b, h)
                q, k = (math.sqrt(E) * normalize(part, dim=-1) for part in (q, k))
                bias = torch.zeros(T, T, dtype=torch.float64)
                if isinstance(position, Rope):
                    q, k = rotated(q), rotated(k)
                else:
                    gate = x[m, b] @ weights["block0.gate"][m, :, h] + weights["block0.gate_bias"][m, h]
                    sums = torch.log(torch.sigmoid(gate)).cumsum(0)
                    bias = sums[:, None] - sums[None, :]
                scores = (q @ k.T / math.sqrt(E) + bias).masked_fill(torch.ones(T, T).triu(1) > 0, -math.inf)
                mixed[m, b, h] = scores.softmax(dim=-1) @ v
    torch.testing.assert_close(attended(position, weights, x), projected(weights, mixed), rtol=1e-5, atol=1e-5)
