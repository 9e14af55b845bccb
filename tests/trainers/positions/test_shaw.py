"""Clipped relative positions on keys and values, against plain loops."""

import math

import numpy as np
import pytest
import torch

from tests.trainers.positions.passes import B, E, H, M, T, attended, bias_of, heads_of, layer, projected, sizes
from trainers.positions.shaw import Shaw
from trainers.tensors.parameters import ParameterLayout


@pytest.mark.parametrize("ids", [None, [0, 2, 3, 3, 1, 5]])
@pytest.mark.parametrize("causal", [False, True])
def test_keys_and_values_depend_on_the_clipped_difference(causal: bool, ids) -> None:
    position = Shaw(clip=2, values=True)
    weights, x = layer(position, causal)
    at = list(range(T)) if ids is None else ids
    mixed = torch.zeros(M, B, H, T, E, dtype=torch.float64)
    keys_of, values_of = weights["block0.pairs"], weights["block0.pair_values"]
    for m in range(M):
        for b in range(B):
            for h in range(H):
                q, k, v = heads_of(weights, x, m, b, h)
                for i in range(T):
                    rows = {j: max(-2, min(2, at[i] - at[j])) + 2 for j in range(i + 1 if causal else T)}
                    found = [q[i] @ (k[j] + keys_of[m, row]) / math.sqrt(E) for j, row in rows.items()]
                    for j, weight in enumerate(torch.softmax(torch.stack(found), dim=0)):
                        mixed[m, b, h, i] += weight * (v[j] + values_of[m, rows[j]])
    given = None if ids is None else torch.tensor(ids).expand(M, B, T)
    got = attended(position, weights, x, causal, ids=given)
    torch.testing.assert_close(got, projected(weights, mixed), rtol=1e-12, atol=1e-12)


def test_it_does_not_change_under_a_common_shift_and_clips() -> None:
    position = Shaw(clip=2)
    weights, _ = layer(position)
    q = torch.randn(M, B, H, 1, E, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    bias = bias_of(position, q.expand(M, B, H, 9, E), weights)
    torch.testing.assert_close(bias[..., 1:, 1:], bias[..., :-1, :-1], rtol=1e-12, atol=1e-12)
    assert torch.equal(bias[..., 8, :7], bias[..., 8, 6:7].expand(-1, -1, -1, 7))
    assert len({round(float(one), 9) for one in bias[0, 0, 0, 4]}) == 5


def test_tables_start_uniform_as_of_xavier() -> None:
    layout = ParameterLayout(Shaw(clip=400, values=True).layer_parameters("b", sizes(T, H, 4)))
    assert layout.shapes == [("b.pairs", (801, 4)), ("b.pair_values", (801, 4))]
    values = layout.views(layout.initial(torch.tensor([3]), torch.float64))["b.pairs"].numpy() * (805 / 6) ** 0.5
    assert -1 <= values.min() < -0.99 and 0.99 < values.max() <= 1
    np.testing.assert_allclose(np.quantile(values, [0.25, 0.5, 0.75]), [-0.5, 0.0, 0.5], atol=0.05)
