"""Encodings by a bias that depends on distance, each against its formula pair by pair: T5, ALiBi, KERPLE, FIRE."""

import math

import numpy as np
import pytest
import torch

from tests.trainers.positions.passes import bias_of, noise, pass_of, sizes
from trainers.config.member import MemberConfig
from trainers.errors import ConfigError
from trainers.models import attention as attention_module
from trainers.models.attention import apply_attention
from trainers.models.decoder import Decoder
from trainers.models.encoder import Encoder
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.positions.alibi import Alibi
from trainers.positions.fire import Fire
from trainers.positions.kerple import Kerple
from trainers.positions.t5 import T5
from trainers.settings import registry
from trainers.tasks.arithmetic.padded_addition import PaddedAddition
from trainers.tensors.batch import Batch
from trainers.tensors.parameters import Parameter, ParameterLayout
from trainers.training.compiling import compile_program
from trainers.training.step import compute_gradients, sample_batches, train_next_step

M, B, H, T, K = 2, 3, 4, 7, 4
TOKENS = torch.zeros(M, B, T, dtype=torch.int64)
POSITIONS = {"t5": T5(), "alibi": Alibi(), "kerple": Kerple(), "fire": Fire(threshold=4.0)}


def drawn(position, seed: int = 0, longest: int = T) -> dict[str, torch.Tensor]:
    """Weights of M members near their initial values."""
    parameters = [
        *position.parameters(sizes(longest, H, K, 0.5)),
        *position.layer_parameters("block0", sizes(longest, H, K, 0.5)),
    ]
    layout = ParameterLayout(parameters)
    return layout.split(layout.draw_initial_weights(torch.arange(M) + 10 * seed, torch.float64)) if parameters else {}


def bias(position, weights, causal: bool, length: int = T) -> torch.Tensor:
    """(M, H, T, T): these do not depend on queries, rows or tokens."""
    q = torch.full((M, B, H, length, K), torch.nan, dtype=torch.float64)
    bias = bias_of(position, q, weights, causal)
    return bias.expand(M, B, H, length, length)[:, 0]


def t5_bucket(key_minus_query: int, causal: bool, buckets: int, most: int) -> int:
    """The bucket by comparing integers: n lies in step s of the k wide ones where n^k >= a^(k-s) D^s."""
    count, offset = (buckets, 0) if causal else (buckets // 2, buckets // 2 if key_minus_query > 0 else 0)
    n = max(-key_minus_query, 0) if causal else abs(key_minus_query)
    a, k = count // 2, count - count // 2
    if n < a:
        return offset + n
    step = max(s for s in range(k) if n**k >= a ** (k - s) * most**s)
    return offset + a + step


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("buckets", "most"), [(32, 128), (8, 5), (16, 1000)])
def test_t5_buckets_of_distances_to_200(causal: bool, buckets: int, most: int) -> None:
    position = T5(buckets=buckets, max_distance=most)
    difference = torch.arange(-200, 201)  # i - j
    expected = [t5_bucket(-n, causal, buckets, most) for n in difference.tolist()]
    assert position.bucket(difference, causal).tolist() == expected
    assert min(expected) == 0 and max(expected) <= buckets - 1


def test_t5_buckets_known_by_heart() -> None:
    """Of the public implementations with 32 buckets up to 128."""
    edges = [8, 11, 12, 15, 16, 22, 23, 31, 32, 45, 46, 63, 64, 90, 91, 127, 128, 200]
    two_sided = [8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15, 15, 15]
    assert T5().bucket(torch.tensor(edges), False).tolist() == two_sided
    assert T5().bucket(-torch.tensor(edges), False).tolist() == [16 + bucket for bucket in two_sided]
    assert T5().bucket(torch.tensor([-1, 0, 1]), False).tolist() == [17, 0, 1]
    assert T5().bucket(torch.tensor([-9, 0, 1, 15, 16, 128, 500]), True).tolist() == [0, 0, 1, 15, 16, 31, 31]


@pytest.mark.parametrize("causal", [False, True])
def test_t5_adds_the_number_of_head_and_bucket(causal: bool) -> None:
    weights = drawn(T5(buckets=8, max_distance=5))
    got = bias(T5(buckets=8, max_distance=5), weights, causal)
    assert weights["buckets"].shape == (M, H, 8)
    for i in range(T):
        for j in range(T):
            row = t5_bucket(j - i, causal, 8, 5)
            torch.testing.assert_close(got[:, :, i, j], weights["buckets"][:, :, row])


def test_t5_refuses_buckets_that_cannot_be_halved_twice() -> None:
    for changes, key in ({"buckets": 6}, "buckets"), ({"max_distance": 16}, "max_distance"):
        with pytest.raises(ConfigError, match=key):
            T5(**changes)


@pytest.mark.parametrize(
    ("heads", "slopes"), [(8, [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]), (2, [1 / 16, 1 / 256])]
)
def test_alibi_falls_by_its_slopes(heads: int, slopes: list[float]) -> None:
    got = bias_of(Alibi(), torch.zeros(1, 1, heads, T, K, dtype=torch.float64), {})
    for h in range(heads):
        for i in range(T):
            for j in range(T):
                assert float(got[h, i, j]) == -slopes[h] * abs(i - j)


def test_kerple_falls_by_the_logarithm_and_clamps() -> None:
    r1 = torch.tensor([[1.5, 0.2, -1.0, 0.001], [0.5, 1.0, 2.0, 0.3]], dtype=torch.float64)
    r2 = torch.tensor([[0.5, 0.0, 0.7, 1.0], [0.1, -3.0, 0.2, 0.9]], dtype=torch.float64)
    got = bias(Kerple(), {"kerple.r1": r1, "kerple.r2": r2}, False)
    for m in range(M):
        for h in range(H):
            a, b = max(float(r1[m, h]), 0.01), max(float(r2[m, h]), 0.01)
            for i in range(T):
                for j in range(T):
                    assert float(got[m, h, i, j]) == pytest.approx(-a * math.log(1 + b * abs(i - j)))


@pytest.mark.parametrize("optimizer", ["adamw", "gradient_descent"])
def test_kerple_below_its_bound_is_set_to_it_and_goes_on_learning(optimizer: str) -> None:
    """As in the authors' code: the weights are bounded, so that a head at the bound has a gradient and can leave it."""
    sections = {
        "task": {"name": "padded_addition"},
        "model": {"name": "decoder", "layers": 1, "width": 8, "heads": 2, "position": "kerple"},
        "training": {"steps": 4, "batch_size": 4, "learning_rate": 0.05, "optimizer": optimizer, "compile": False},
    }
    pack = Pack([MemberConfig.from_dict({**sections, "seed": seed}) for seed in range(2)], torch.device("cpu"))
    state = TrainingState.make_initial(pack)
    r2 = pack.layout.split(state.theta)["kerple.r2"]
    r2.copy_(torch.full_like(r2, 0.01))
    gradient, _ = compute_gradients(pack, state.theta, sample_batches(pack, state.step + 1, 4), state.step + 1)
    assert (pack.layout.split(gradient)["kerple.r2"] != 0).all(), "a head at the bound learns"
    for _ in range(4):
        train_next_step(pack, state)
        for name in ("kerple.r1", "kerple.r2"):
            assert (pack.layout.split(state.theta)[name] >= np.float32(0.01)).all()
    assert (pack.layout.split(state.theta)["kerple.r2"] > np.float32(0.01)).any() or optimizer == "gradient_descent"
    everything = ParameterLayout([Parameter(name="a", shape=(2,), std=1.0), *Kerple().parameters(sizes(T, 1, K))])
    least = everything.make_lower_bounds(torch.device("cpu"), torch.float64)
    assert least is not None and least.tolist() == [-math.inf, -math.inf, 0.01, 0.01]
    assert (
        ParameterLayout([Parameter(name="a", shape=(2,), std=1.0)]).make_lower_bounds(
            torch.device("cpu"), torch.float64
        )
        is None
    )


def test_kerple_starts_uniform_and_not_below_its_bound() -> None:
    layout = ParameterLayout(Kerple().parameters(sizes(T, 4000, K)))
    views = layout.split(layout.draw_initial_weights(torch.tensor([3]), torch.float64))
    for name, high in (("kerple.r1", 2.0), ("kerple.r2", 1.0)):
        values = views[name].numpy() / high
        assert values.min() * high == np.float32(0.01) and 0.99 < values.max() < 1
        np.testing.assert_allclose(np.quantile(values, [0.25, 0.5, 0.75]), [0.25, 0.5, 0.75], atol=0.03)
    assert all(not parameter.decay for parameter in layout.parameters)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("threshold", [4.0, 100.0])
def test_fire_is_its_formula(causal: bool, threshold: float) -> None:
    position = Fire(threshold=threshold, hidden=5)
    weights = {
        name: value + 0.2 * torch.randn(value.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        for name, value in drawn(position).items()
    }
    got = bias(position, weights, causal)
    for m in range(M):
        parameters = {name.removeprefix("block0.fire_"): value[m].tolist() for name, value in weights.items()}
        c, limit = parameters["c"][0], abs(parameters["factor"][0] * threshold)
        for i in range(T):
            for j in range(i + 1 if causal else T):
                top = math.log(abs(c * (i - j)) + 1)
                x = top / (math.log(abs(c * max(i, j, limit)) + 1) + 1e-6)
                assert 0 <= x < 1
                hidden = [max(w * x + b, 0.0) for w, b in zip(parameters["in"][0], parameters["in_bias"], strict=True)]
                for h in range(H):
                    out = sum(hidden[n] * parameters["out"][n][h] for n in range(5)) + parameters["out_bias"][h]
                    assert float(got[m, h, i, j]) == pytest.approx(out)


def test_fire_starts_at_the_numbers_of_its_paper() -> None:
    weights = drawn(Fire())
    assert weights["block0.fire_c"].tolist() == [[pytest.approx(0.1)]] * M
    assert weights["block0.fire_factor"].tolist() == [[1.0]] * M
    for name, side in ("in", 1.0), ("in_bias", 1.0), ("out", 32**-0.5), ("out_bias", 32**-0.5):
        size = weights[f"block0.fire_{name}"].abs().max()
        assert 0.4 * side < size < side
    decays = {p.name.removeprefix("block0.fire_") for p in Fire().layer_parameters("block0", sizes(T, H, K)) if p.decay}
    assert decays == {"in", "out"}


@pytest.mark.slow
def test_a_bias_that_is_not_trained_compiles() -> None:
    """Inductor has patterns for scores + mask, which do not fit tensors with a member dimension."""
    generator = torch.Generator().manual_seed(5)
    shapes = {"qkv": (8, 3 * H * K), "qkv_bias": (3 * H * K,), "output": (H * K, 8), "output_bias": (8,)}
    weights = {f"block0.{key}": torch.randn(M, *shape, generator=generator) for key, shape in shapes.items()}
    x, position = torch.randn(M, B, T, 8, generator=generator), Alibi()

    def total(weights: dict[str, torch.Tensor]) -> torch.Tensor:
        seen = pass_of(TOKENS, weights, False)
        return apply_attention(x, seen, name="block0", layer=0, heads=H, position=position).square().sum()

    eager = torch.func.grad(total)(weights)
    compiled = compile_program(torch.func.grad(total), "cpu")(weights)
    for key, value in eager.items():
        torch.testing.assert_close(compiled[key], value, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", registry.list_names("position"))
def test_the_fused_kernel_is_used_where_nothing_is_added(monkeypatch, name: str) -> None:
    calls = []
    fused = attention_module.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        attention_module.functional,
        "scaled_dot_product_attention",
        lambda *args, **options: calls.append(1) or fused(*args, **options),
    )
    model = Encoder(layers=2, width=8, heads=2, position=name, dropout=0.0)
    task = PaddedAddition(width=3, train_digits=2)
    layout = ParameterLayout(model.parameters(task))
    tokens = torch.tensor([[[10, 1, 2, 11, 10, 10, 7]]])
    model.logits(
        layout.split(layout.draw_initial_weights(torch.tensor([0]), torch.float32)),
        Batch(tokens, tokens),
        noise(0, training=False),
        "plain",
    )
    adds = {"rpe", "upe", "significance", "tra", "fox", "cope", "shaw", *POSITIONS}
    assert len(calls) == (0 if name in adds else 2)


def test_which_tables_the_layers_share() -> None:
    task = PaddedAddition(width=3, train_digits=2)
    for name, count in ("t5", 0), ("kerple", 0), ("fire", 6), ("rpe", 1), ("significance", 1):
        model = Decoder(layers=2, width=8, heads=2, position=name)
        plain = {p.name for p in Decoder(layers=2, width=8, heads=2).parameters(task)}
        added = [p.name for p in model.parameters(task) if p.name not in plain]
        assert sum(name.startswith("block1.") for name in added) == count and len(added) > 2 * count - 1
