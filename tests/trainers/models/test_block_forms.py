"""Forms of blocks: against torch's own layers, the sizes of Opper et al. (arXiv:2503.23174), and identities."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.trainers.positions.passes import drawn, noise
from tests.trainers.runs import check_alone
from trainers.config.member import MemberConfig
from trainers.errors import ConfigError
from trainers.models.decoder import Decoder
from trainers.packs.pack import Pack
from trainers.positions.alibi import Alibi
from trainers.positions.tra import ThresholdRelative
from trainers.tasks.set_complement import SetComplement
from trainers.tensors.batch import Batch
from trainers.tensors.parameters import ParameterLayout

TASK = SetComplement(vocabulary=9, train_length=4)
TOKENS = torch.tensor([[[1, 5, 2, 8, 0], [3, 4, 7, 6, 1]]])
NOTEBOOK = {  # the block of the authors' notebook
    "norm": "residual",
    "norm_type": "rms",
    "mlp": "gated",
    "biases": ["output", "mlp"],
    "init": "torch",
    "embedding_range": 0.01,
    "dropout_sites": ["embedding", "attention", "hidden"],
}
MINI = {"layers": 4, "heads": 4, "width": 256, "dropout": 0.01, **NOTEBOOK, "position": "tra"}
MEDIUM = {**MINI, "layers": 8, "heads": 8, "width": 512}


class Words(SetComplement):
    """A vocabulary of any size, the same in and out."""

    inputs = outputs = property(lambda self: self.vocabulary)


@pytest.mark.parametrize(("preset", "tokens", "count"), [(MINI, 6, 2.64e6), (MEDIUM, 50257, 72.5e6)])
def test_the_sizes_of_the_paper(preset, tokens: int, count: float) -> None:
    model, task = Decoder(**preset), Words(vocabulary=tokens, train_length=4)
    size = ParameterLayout(model.parameters(task)).size
    assert size == pytest.approx(count, rel=2e-3)
    gates = model.layers * (model.width * model.heads + model.heads)
    assert ParameterLayout(replace(model, position=Alibi()).parameters(task)).size == size - gates


def of_linear(weights: dict[str, torch.Tensor], name: str) -> nn.Linear:
    matrix, bias = weights[name][0], weights.get(f"{name}_bias")
    layer = nn.Linear(*matrix.shape, bias=bias is not None, dtype=torch.float64)
    layer.load_state_dict({"weight": matrix.T} | ({} if bias is None else {"bias": bias[0]}))
    return layer


@pytest.mark.parametrize("norm", ["residual", "pre", "post"])
@pytest.mark.parametrize("norm_type", ["rms", "rms_unscaled"])
@pytest.mark.parametrize("biases", [(), ("output", "mlp"), ("qkv",)])
def test_a_block_is_the_layers_of_torch(norm: str, norm_type: str, biases) -> None:
    settings = {**NOTEBOOK, "norm": norm, "norm_type": norm_type, "biases": biases, "hidden": 12}
    model = Decoder(layers=2, heads=2, width=8, **settings)
    weights = drawn(model, TASK, 1)

    def normed(x: torch.Tensor, name: str) -> torch.Tensor:
        gain = weights.get(f"{name}_gain")
        return functional.rms_norm(x, (8,), None if gain is None else gain[0], 1e-6)

    def mixed(x: torch.Tensor, name: str) -> torch.Tensor:
        q, k, v = of_linear(weights, f"{name}.qkv")(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return of_linear(weights, f"{name}.output")(attended.transpose(1, 2).flatten(2))

    def perceptron(x: torch.Tensor, name: str) -> torch.Tensor:
        first, second = of_linear(weights, f"{name}.in")(x).chunk(2, dim=-1)
        return of_linear(weights, f"{name}.out")(first * functional.silu(second))

    x = functional.embedding(TOKENS[0], weights["embedding"][0])
    for name in ("block0", "block1"):
        for branch, key in (mixed, "norm1"), (perceptron, "norm2"):
            x = normed(x, f"{name}.{key}") if norm == "residual" else x
            x = x + branch(normed(x, f"{name}.{key}") if norm == "pre" else x, name)
            x = normed(x, f"{name}.{key}") if norm == "post" else x
    expected = (x if norm == "post" else normed(x, "final")) @ weights["head"][0]
    logits = model.logits(weights, Batch(TOKENS, TOKENS), None, "plain")
    torch.testing.assert_close(logits[0], expected, rtol=1e-10, atol=1e-10)


def test_initial_weights_are_those_of_torch_linear_and_the_notebook() -> None:
    model = Decoder(layers=1, heads=4, width=64, **NOTEBOOK, position="tra")
    layout = ParameterLayout(model.parameters(Words(vocabulary=500, train_length=4)))
    views = layout.split(layout.draw_initial_weights(torch.tensor([5]), torch.float64))
    sides = {"block0.qkv": 1 / 8, "block0.output": 1 / 8, "block0.in": 1 / 8, "block0.out": 128**-0.5}
    sides |= {f"{name}_bias": side for name, side in sides.items() if name != "block0.qkv"}
    sides |= {"embedding": 0.01, "block0.gate": 1 / 8}
    for name, side in sides.items():
        values = views[name].numpy() / side
        assert 0.9 < np.abs(values).max() <= 1, name
        np.testing.assert_allclose(np.quantile(values, [0.25, 0.5, 0.75]), [-0.5, 0.0, 0.5], atol=0.3, err_msg=name)
    assert float(views["head"].std()) == pytest.approx(0.02, rel=0.05)
    assert float(views["head"].abs().max()) > 0.06  # normal: farther than a uniform one of this spread
    assert "block0.qkv_bias" not in views and "final_bias" not in views and (views["final_gain"] == 1).all()


def test_dropout_inside_the_mlp_has_a_mask_of_its_own() -> None:
    weights = drawn(Decoder(layers=2, heads=2, width=8, **NOTEBOOK), TASK, 1)
    logits = []
    for sites in ((), ("hidden",), ("residual",)):
        model = Decoder(layers=2, heads=2, width=8, dropout=0.5, **{**NOTEBOOK, "dropout_sites": sites})
        logits.append(model.logits(weights, Batch(TOKENS, TOKENS), noise(3, rate=0.5), "plain"))
    assert not torch.allclose(logits[0], logits[1]) and not torch.allclose(logits[1], logits[2])
    still = Decoder(layers=2, heads=2, width=8, **NOTEBOOK).logits(weights, Batch(TOKENS, TOKENS), None, "plain")
    torch.testing.assert_close(logits[0], still)


def test_a_member_with_the_block_of_the_notebook_trains_alone_as_in_a_pack(sections) -> None:
    model = {"name": "decoder", "layers": 2, "width": 8, "heads": 2, "dropout": 0.1, **NOTEBOOK, "position": "tra"}
    check_alone(
        lambda seeds: Pack([MemberConfig.from_dict(sections(seed, model=model)) for seed in seeds], torch.device("cpu"))
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"mlp": "gated", "hidden": 7}, "hidden.*is odd"), ({"biases": ["mlp", "mlp"]}, "biases.*twice")],
)
def test_what_cannot_be_is_refused(changes, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"(?s){message}"):
        Decoder(layers=1, width=8, heads=2, position=ThresholdRelative(), **changes)
