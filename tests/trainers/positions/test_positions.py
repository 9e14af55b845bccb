"""Positional encodings against their formulas, written out pair by pair."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn.functional import normalize

from tests.trainers.positions.passes import (
    B,
    E,
    H,
    M,
    T,
    attended,
    bias_of,
    heads_of,
    layer,
    layer_of,
    pass_of,
    projected,
    sizes,
)
from trainers.errors import ConfigError
from trainers.models.encoder import Encoder
from trainers.positions.cope import Cope
from trainers.positions.fox import Fox
from trainers.positions.position import Position
from trainers.positions.rope import Rope
from trainers.positions.rpe import Rpe
from trainers.positions.shaw import Shaw
from trainers.positions.sinusoidal import Sinusoidal
from trainers.positions.upe import Upe
from trainers.tasks.set_complement import SetComplement
from trainers.tensors.parameters import ParameterLayout


def queries(seed: int = 0) -> torch.Tensor:
    return torch.randn(2, 3, 2, T, E, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def table(position, rows: int) -> dict[str, torch.Tensor]:
    (parameter,) = position.layer_parameters("block0", sizes(T, 2, E))
    assert parameter.shape == (rows, E) and parameter.decay
    values = torch.randn(2, rows, E, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    return {parameter.name: values}


def test_rpe_adds_the_vector_of_the_difference_to_each_key() -> None:
    weights, q = table(Rpe(), 2 * T - 1), queries()
    got = bias_of(Rpe(), q, weights)
    for i in range(T):
        for j in range(T):
            expected = (q[:, :, :, i] * weights["block0.pairs"][:, None, None, i - j + T - 1]).sum(-1) / math.sqrt(E)
            torch.testing.assert_close(got[..., i, j], expected)


def test_upe_gives_each_multiplier_digit_one_vector_for_all_queries() -> None:
    position, q = Upe(uniform=2), queries()
    weights = table(position, 2 * T - 1 + 2)
    got = bias_of(position, q, weights)
    for i in range(T):
        for j in range(T):
            row = 2 * T - 1 + (1 - j) if j < 2 else i - j + T - 1  # position 0 is the tens, 1 the units
            expected = (q[:, :, :, i] * weights["block0.pairs"][:, None, None, row]).sum(-1) / math.sqrt(E)
            torch.testing.assert_close(got[..., i, j], expected)


def test_sinusoidal_is_its_formula() -> None:
    x = torch.zeros(1, 1, 5, 6, dtype=torch.float64)
    got = Sinusoidal(base=100.0).embed(x, pass_of(torch.zeros(1, 1, 5), {}, False))[0, 0]
    for t in range(5):
        for i in range(3):
            angle = t / 100 ** (2 * i / 6)
            assert float(got[t, 2 * i]) == pytest.approx(math.sin(angle))
            assert float(got[t, 2 * i + 1]) == pytest.approx(math.cos(angle))


def test_a_bidirectional_model_is_refused_for_a_task_of_next_tokens(member) -> None:
    with pytest.raises(ConfigError, match=r"model.name.*causal"):
        member(model={"name": "encoder", "layers": 1, "width": 8, "heads": 2})


def test_upe_is_refused_where_there_is_no_multiplier() -> None:
    problems = list(Encoder(width=8, position={"name": "upe", "uniform": 1}).find_task_problems(SetComplement()))
    assert any(problem.key == "position.uniform" for problem in problems)


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
                distance = min(sum(gates[j : i + 1]) if j <= i else sum(gates[i + 1 : j + 1]) + gates[j], 2.0)
                low, part = int(distance), distance - int(distance)
                vector = (1 - part) * table[m, low] + part * table[m, min(low + 1, 2)]
                term = float(q[m, b, h, i] @ vector) / (math.sqrt(E) if scaled else 1.0)
                expected = float(q[m, b, h, i] @ k[m, b, h, j]) / math.sqrt(E) + term
                assert float(logits[m, b, h, i, j]) == pytest.approx(expected, abs=1e-12)


def test_it_starts_without_positions_and_learns_them() -> None:
    (parameter,) = Cope(npos_max=5).layer_parameters("block0", sizes(T, H, E))
    assert parameter.shape == (5, E) and parameter.std == parameter.mean == 0.0
    weights, (q, k) = {"block0.cope": torch.zeros(M, 5, E, dtype=torch.float64, requires_grad=True)}, queries_and_keys()
    context = layer_of(q, weights, True, k=k)
    logits = Cope(npos_max=5).score(context).logits
    torch.testing.assert_close(logits, context.products())
    logits.tril().square().sum().backward()
    assert weights["block0.cope"].grad.abs().sum() > 0


GROUPS = [0, 1, 2, 1, 0, 2]


def fox_bias(weights: dict[str, torch.Tensor], x: torch.Tensor, causal: bool, **more) -> torch.Tensor:
    context = layer_of(torch.zeros(M, B, H, T, E, dtype=torch.float64), weights, causal, x=x, **more)
    return Fox().score(replace(context, state=Fox().key_state(context))).bias


@pytest.mark.parametrize("groups", [None, GROUPS])
@pytest.mark.parametrize("causal", [True, False])
def test_the_bias_is_the_sum_of_what_lies_between(causal: bool, groups) -> None:
    """Of the tokens that the query sees: of its own group and of group 0, and all from group 0."""
    weights, x = layer(Fox())
    logs = torch.nn.functional.logsigmoid(
        torch.einsum("mbtd,mdh->mbth", x, weights["block0.gate"]) + weights["block0.gate_bias"][:, None, None]
    ).transpose(2, 3)
    given = {} if groups is None else {"groups": torch.tensor(groups).expand(M, B, T)}
    bias = fox_bias(weights, x, causal, **given).expand(M, B, H, T, T)
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
    fox_bias(leaves, x, True).tril().square().sum().backward()
    assert leaves["block0.gate"].grad.abs().min() > 0 and leaves["block0.gate_bias"].grad.abs().min() > 0


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
                    scores = [q[i] @ (k[j] + keys_of[m, row]) / math.sqrt(E) for j, row in rows.items()]
                    for j, weight in enumerate(torch.softmax(torch.stack(scores), dim=0)):
                        mixed[m, b, h, i] += weight * (v[j] + values_of[m, rows[j]])
    given = None if ids is None else torch.tensor(ids).expand(M, B, T)
    got = attended(position, weights, x, causal, ids=given)
    torch.testing.assert_close(got, projected(weights, mixed), rtol=1e-12, atol=1e-12)


def test_tables_start_uniform_as_of_xavier() -> None:
    layout = ParameterLayout(Shaw(clip=400, values=True).layer_parameters("b", sizes(T, H, 4)))
    assert layout.shapes == [("b.pairs", (801, 4)), ("b.pair_values", (801, 4))]
    weights = layout.draw_initial_weights(torch.tensor([3]), torch.float64)
    values = layout.split(weights)["b.pairs"].numpy() * (805 / 6) ** 0.5
    assert -1 <= values.min() < -0.99 and 0.99 < values.max() <= 1
    np.testing.assert_allclose(np.quantile(values, [0.25, 0.5, 0.75]), [-0.5, 0.0, 0.5], atol=0.05)


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
