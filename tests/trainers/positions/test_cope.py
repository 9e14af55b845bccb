"""Contextual positions against plain loops, and with all gates open."""

import math

import pytest
import torch

from tests.trainers.positions.passes import B, E, H, M, T, layer, layer_of
from trainers.positions.cope import Cope


def queries_and_keys() -> torch.Tensor:
    return torch.randn(2, M, B, H, T, E, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("causal", [True, False])
def test_logits_are_the_equations(causal: bool, scaled: bool) -> None:
    position = Cope(npos_max=3, scaled=scaled)
    (weights, _), (q, k) = layer(position), queries_and_keys()
    logits = position.score(layer_of(q, weights, causal, k=k)).logits
    table = weights["block0.cope"]
    for m, b, h in [(0, 0, 0), (1, 2, 1)]:
        for i in range(T):
            gates = [1 / (1 + math.exp(-float(q[m, b, h, i] @ k[m, b, h, j]) / math.sqrt(E))) for j in range(T)]
            for j in range(i + 1 if causal else T):
                place = min(sum(gates[j : i + 1]) if j <= i else sum(gates[i + 1 : j + 1]) + gates[j], 2.0)
                low, part = int(place), place - int(place)
                vector = (1 - part) * table[m, low] + part * table[m, min(low + 1, 2)]
                term = float(q[m, b, h, i] @ vector) / (math.sqrt(E) if scaled else 1.0)
                expected = float(q[m, b, h, i] @ k[m, b, h, j]) / math.sqrt(E) + term
                assert float(logits[m, b, h, i, j]) == pytest.approx(expected, abs=1e-12)


def test_with_open_gates_it_is_a_trained_table_of_distances() -> None:
    position = Cope(npos_max=4)
    (weights, _), (q, k) = layer(position), queries_and_keys()
    q, k = q.abs() + 40.0, k.abs() + 40.0  # sigmoid of more than 3000
    logits = position.score(layer_of(q, weights, True, k=k)).logits
    rows = torch.arange(T)[:, None] - torch.arange(T) + 1
    vectors = weights["block0.cope"][:, rows.clamp(0, 3)]  # (M, T, T, E)
    expected = (q @ k.mT + torch.einsum("mbhte,mtje->mbhtj", q, vectors)) / math.sqrt(E)
    torch.testing.assert_close(logits.tril(), expected.tril(), rtol=1e-12, atol=1e-12)


def test_it_starts_without_positions_and_learns_them() -> None:
    (parameter,) = Cope(npos_max=5).layer_parameters("block0", layer_sizes())
    assert parameter.shape == (5, E) and parameter.std == parameter.mean == 0.0
    weights, (q, k) = {"block0.cope": torch.zeros(M, 5, E, dtype=torch.float64, requires_grad=True)}, queries_and_keys()
    context = layer_of(q, weights, True, k=k)
    logits = Cope(npos_max=5).score(context).logits
    torch.testing.assert_close(logits, context.products())
    logits.tril().square().sum().backward()
    assert weights["block0.cope"].grad.abs().sum() > 0


def layer_sizes():
    from tests.trainers.positions.passes import sizes

    return sizes(T, H, E)
