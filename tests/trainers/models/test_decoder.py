"""The stacked decoder against torch's own layers with copied weights, its positions, dropout sites and packs."""

import numpy as np
import pytest
import torch
from torch import nn

from tests.trainers.positions.passes import drawn, layer_of, noise, pass_of, sizes
from trainers.models.decoder import Decoder
from trainers.models.encoder import Encoder
from trainers.positions.learned import Learned
from trainers.positions.rope import Rope
from trainers.settings import registry
from trainers.tasks.set_complement import SetComplement
from trainers.tensors.batch import Batch

CPU = torch.device("cpu")
TASK = SetComplement(vocabulary=9, train_length=4)
TOKENS = torch.tensor([[[1, 5, 2, 8, 0], [3, 4, 7, 6, 1]]])
BATCH = Batch(TOKENS, TOKENS)


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("kind", [Decoder, Encoder])
def test_equals_torch_transformer_with_copied_weights(kind, norm: str) -> None:
    model = kind(layers=2, width=8, heads=2, hidden=12, norm=norm, dropout=0.0)
    causal, epsilon = model.causal, model.epsilon
    w = {name: value[0] for name, value in drawn(model, TASK, 1).items()}
    x = w["embedding"][TOKENS[0]]
    if not causal:
        x = nn.functional.layer_norm(x, (8,), w["embedded_gain"], w["embedded_bias"], epsilon)
    mask = nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    for i in range(2):
        layer = nn.TransformerEncoderLayer(
            8, 2, 12, 0.0, "gelu", epsilon, batch_first=True, norm_first=norm == "pre", dtype=torch.float64
        )
        copied = {
            "self_attn.in_proj_weight": w[f"block{i}.qkv"].T,
            "self_attn.in_proj_bias": w[f"block{i}.qkv_bias"],
            "self_attn.out_proj.weight": w[f"block{i}.output"].T,
            "self_attn.out_proj.bias": w[f"block{i}.output_bias"],
            "linear1.weight": w[f"block{i}.in"].T,
            "linear1.bias": w[f"block{i}.in_bias"],
            "linear2.weight": w[f"block{i}.out"].T,
            "linear2.bias": w[f"block{i}.out_bias"],
            **{f"norm{j}.weight": w[f"block{i}.norm{j}_gain"] for j in (1, 2)},
            **{f"norm{j}.bias": w[f"block{i}.norm{j}_bias"] for j in (1, 2)},
        }
        layer.load_state_dict(copied)
        x = layer(x, src_mask=mask, is_causal=True) if causal else layer(x)
    if norm == "pre":
        x = nn.functional.layer_norm(x, (8,), w["final_gain"], w["final_bias"], epsilon)
    expected = x @ w["head"]
    got = model.logits({name: value[None] for name, value in w.items()}, BATCH, None, "plain")[0]
    torch.testing.assert_close(got, expected.detach(), rtol=1e-9, atol=1e-9)


def test_fused_attention_equals_written_out_attention() -> None:
    """Dropout of rate zero at the attention weights takes the written-out path."""
    model = Decoder(layers=2, width=8, heads=2)
    weights = drawn(model, TASK, 1)
    torch.testing.assert_close(
        model.logits(weights, BATCH, noise(0, rate=0.0), "plain"), model.logits(weights, BATCH, None, "plain")
    )


CAUSAL = [name for name in registry.list_names("position") if name not in ("significance", "randomized")]


@pytest.mark.parametrize("position", [*CAUSAL, {"name": "tra", "threshold": False}], ids=str)
def test_later_tokens_do_not_change_earlier_logits(position) -> None:
    model = Decoder(layers=2, width=8, heads=2, position=position)
    weights = drawn(model, TASK, 1)
    long = model.logits(weights, BATCH, None, "plain")
    short = model.logits(weights, Batch(TOKENS[..., :3], TOKENS[..., :3]), None, "plain")
    torch.testing.assert_close(long[:, :, :3], short)


def test_rope_is_a_rotation_by_position_times_frequency() -> None:
    x = torch.tensor([1.0, 0.0, 0.0, 0.0], dtype=torch.float64).expand(1, 1, 1, 7, 4)
    turned = Rope(base=100.0).rotate(layer_of(x, {}))[0][0, 0, 0]
    for t in range(7):
        torch.testing.assert_close(turned[t], torch.tensor([np.cos(t), 0.0, np.sin(t), 0.0]))


def test_learned_positions_and_their_offsets() -> None:
    position = Learned(max_offset=3)
    (parameter,) = position.parameters(sizes(8, 2, 2, width=4))
    assert parameter.shape == (11, 4)
    table = torch.arange(11.0)[None, :, None].expand(1, 11, 4).contiguous()
    x, tokens = torch.zeros(1, 50, 5, 4), torch.zeros(1, 50, 5, dtype=torch.int64)
    for still in (None, noise(0, training=False)):
        seen = pass_of(tokens, {"positions": table}, True, noise=still)
        assert position.embed(x, seen)[0, 0, :, 0].tolist() == [0, 1, 2, 3, 4]
    shifted = position.embed(x, pass_of(tokens, {"positions": table}, True, noise=noise(0)))[0, :, :, 0]
    assert set(shifted[:, 0].tolist()) == {0, 1, 2, 3}
    torch.testing.assert_close(shifted - shifted[:, :1], torch.arange(5.0).expand(50, 5))
