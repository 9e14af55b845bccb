"""Forgetting attention against its sums, written out."""

import math
from dataclasses import replace

import pytest
import torch

from tests.trainers.positions.passes import B, D, E, H, M, T, layer, layer_of
from trainers.positions.fox import Fox

GROUPS = [0, 1, 2, 1, 0, 2]


def bias_of(weights: dict[str, torch.Tensor], x: torch.Tensor, causal: bool, **more) -> torch.Tensor:
    found = layer_of(torch.zeros(M, B, H, T, E, dtype=torch.float64), weights, causal, x=x, **more)
    return Fox().score(replace(found, state=Fox().key_state(found))).bias


def test_a_constant_gate_is_a_slope() -> None:
    """ALiBi with the slope -log f."""
    weights, x = layer(Fox())
    weights["block0.gate"] = torch.zeros(M, D, H, dtype=torch.float64)
    weights["block0.gate_bias"] = torch.full((M, H), math.log(0.9 / 0.1), dtype=torch.float64)
    for causal in (True, False):
        bias = bias_of(weights, x, causal)
        for i in range(T):
            for j in range(i + 1 if causal else T):
                torch.testing.assert_close(bias[..., i, j], torch.full((M, B, H), math.log(0.9) * abs(i - j)).double())


@pytest.mark.parametrize("groups", [None, GROUPS])
@pytest.mark.parametrize("causal", [True, False])
def test_the_bias_is_the_sum_of_what_lies_between(causal: bool, groups) -> None:
    """Of the tokens that the query sees: of its own group and of group 0, and all from group 0."""
    weights, x = layer(Fox())
    logs = torch.nn.functional.logsigmoid(
        torch.einsum("mbtd,mdh->mbth", x, weights["block0.gate"]) + weights["block0.gate_bias"][:, None, None]
    ).transpose(2, 3)
    given = {} if groups is None else {"groups": torch.tensor(groups).expand(M, B, T)}
    bias = bias_of(weights, x, causal, **given).expand(M, B, H, T, T)
    for i in range(T):
        for j in range(i + 1 if causal else T):
            sees = [k for k in range(T) if groups is None or groups[i] == groups[k] or 0 in (groups[i], groups[k])]
            if j not in sees:
                continue
            between = [k for k in sees if j < k <= i or i < k <= j]
            torch.testing.assert_close(bias[..., i, j], logs[..., between].sum(dim=-1), rtol=1e-12, atol=1e-12)


def test_gradients_reach_the_gate() -> None:
    weights, x = layer(Fox())
    leaves = {name: value.detach().requires_grad_() for name, value in weights.items()}
    bias_of(leaves, x, True).tril().square().sum().backward()
    assert leaves["block0.gate"].grad.abs().min() > 0 and leaves["block0.gate_bias"].grad.abs().min() > 0
