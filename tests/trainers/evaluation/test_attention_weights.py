"""What one input attends to: the weights that the model computes with, of a row that was evaluated."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.side_by_side.cases import DECODER, FLIPS, PRODUCT, SIX, STRINGS
from trainers import MemberConfig
from trainers.errors import ConfigError
from trainers.evaluation.attention_weights import compute_input_attention
from trainers.models import attention
from trainers.packs.evaluation_inputs import draw_evaluation_inputs, make_evaluation_stream
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.tensors.noise import Noise

COPY = {"name": "copy_string", **STRINGS}


def member(task: dict, model: dict, **position: object) -> MemberConfig:
    return MemberConfig.from_dict(
        {
            "task": task,
            "model": {**model, **({"position": position} if position else {})},
            "training": {"steps": 1, "batch_size": 2, "learning_rate": 0.1, "dtype": "float64"},
            "evaluation": {"samples": 5},
            "seed": 3,
        }
    )


def initial(of: MemberConfig) -> dict[str, np.ndarray]:
    """Initial weights, large ones: small scores would make every row of weights the same."""
    pack = Pack([of], torch.device("cpu"))
    return {
        name: 8 * value[0].numpy() for name, value in pack.layout.split(TrainingState.make_initial(pack).theta).items()
    }


def test_the_weights_of_the_first_layer_are_those_of_its_equations() -> None:
    """ALiBi (arXiv:2108.12409): softmax over j <= i of q_i . k_j / sqrt(E) - m_h (i - j), m_h = 2^(-8 h / H)."""
    of = member(FLIPS, {**DECODER, "norm": "none"}, name="alibi")
    weights, row = initial(of), 4
    input_attention = compute_input_attention(of, weights, length=4, row=row)
    (test, *_) = draw_evaluation_inputs(Pack([of], torch.device("cpu")))
    tokens = test.batch.tokens[0, row]
    x = weights["embedding"][tokens]
    projected = x @ weights["block0.qkv"] + weights["block0.qkv_bias"]
    q, k, _ = np.split(projected.reshape(len(x), 3 * 2, 4), [2, 4], axis=1)
    for head in range(2):
        for i in range(len(x)):
            scores = [
                q[i, head] @ k[j, head] / math.sqrt(4) - 2 ** (-8 * (head + 1) / 2) * (i - j) for j in range(i + 1)
            ]
            expected = np.exp(scores) / np.exp(scores).sum()
            np.testing.assert_allclose(input_attention.layers[0][head, i, : i + 1], expected, rtol=1e-9)
            assert not input_attention.layers[0][head, i, i + 1 :].any()
    assert input_attention.tokens == tuple(of.task.format_row(test.batch, row)[0])
    assert len(input_attention.layers) == 2 and input_attention.layers[1].shape == (2, 8, 8)


@pytest.mark.parametrize("position", ["nope", "rope", "tra", "cope", "fox", "shaw"])
def test_looking_changes_nothing_and_rows_sum_to_one_or_attend_to_nothing(position: str) -> None:
    of = member(COPY, DECODER, name=position)
    pack, weights = Pack([of], torch.device("cpu")), initial(of)
    views = {name: torch.as_tensor(value)[None] for name, value in weights.items()}
    seen = list[torch.Tensor]()
    for test in draw_evaluation_inputs(pack):
        plain = of.model.logits(views, test.batch, None, "plain")
        whole = of.model._make_full_pass(views, test.batch, None, watcher=lambda context, part: seen.append(part))
        torch.testing.assert_close(of.model._compute_logits(whole), plain, rtol=1e-9, atol=1e-12)
    assert len(seen) == 2 * len(of.evaluated_lengths)
    input_attention = compute_input_attention(of, weights, length=8, row=2)
    for layer in input_attention.layers:
        sums = layer.sum(axis=-1)
        assert np.all((np.abs(sums - 1) < 1e-9) | (sums == 0)) and np.allclose(np.triu(layer, 1), 0)
        assert position == "tra" or not (sums == 0).any()


def test_the_row_is_one_that_was_evaluated_with_its_random_numbers() -> None:
    of = member(COPY, DECODER, name="randomized", longest=64, base="learned", draw="row")
    pack, weights = Pack([of], torch.device("cpu")), initial(of)
    test = next(inputs for inputs in draw_evaluation_inputs(pack) if 8 in inputs.lengths)
    views = {name: torch.as_tensor(value)[None] for name, value in weights.items()}
    rows = test.batch.tokens.shape[1]
    noise = Noise(
        make_evaluation_stream(pack, "dropout"), torch.zeros(1, dtype=torch.int64), training=False, first=0, total=rows
    )
    every = of.model.compute_attention(views, test.batch, noise)
    for row in (0, 3):
        input_attention = compute_input_attention(of, weights, length=8, row=row)
        count = len(input_attention.tokens)
        assert input_attention.tokens == tuple(of.task.format_row(test.batch, row)[0]), "without the pads on the right"
        for layer, expected in zip(input_attention.layers, every, strict=True):
            np.testing.assert_allclose(layer, expected[0, row, :, :count, :count].numpy(), rtol=1e-9, atol=1e-12)
    assert not np.array_equal(every[0][0, 0], every[0][0, 3])


def test_a_row_that_measures_several_lengths_is_cut_and_one_head_is_one() -> None:
    of = member(SIX, {"name": "attention_only", "width": 8})
    input_attention = compute_input_attention(of, initial(of), length=3)
    assert len(input_attention.tokens) == 3 and [layer.shape for layer in input_attention.layers] == [(1, 3, 3)]
    longer = compute_input_attention(of, initial(of), length=5)
    np.testing.assert_allclose(input_attention.layers[0], longer.layers[0][:, :3, :3])


@pytest.mark.parametrize(("task", "model"), [(COPY, DECODER), (PRODUCT, {**DECODER, "name": "encoder"})])
def test_chunks_of_queries_are_put_together(task: dict, model: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    of = member(task, model)
    test = next(draw_evaluation_inputs(Pack([of], torch.device("cpu"))))
    grouped = replace(test.batch, groups=torch.ones_like(test.batch.tokens))
    weights = {name: torch.as_tensor(value)[None] for name, value in initial(of).items()}
    whole = of.model.compute_attention(weights, grouped, None)
    monkeypatch.setattr(attention, "MAX_QUERIES", 3)
    for layer, chunked in zip(whole, of.model.compute_attention(weights, grouped, None), strict=True):
        torch.testing.assert_close(layer, chunked, rtol=1e-9, atol=1e-12)


def test_what_was_not_evaluated_is_refused_by_name() -> None:
    of = member(FLIPS, DECODER)
    weights = initial(of)

    def refused(**given: object) -> str:
        with pytest.raises(ConfigError) as error:
            compute_input_attention(of, weights, **{"length": 4, **given})
        return str(error.value)

    assert refused(length=5) == "length: 5 was not evaluated in iid; allowed: 4, 8"
    assert refused(row=5) == "row: there is no row 5; allowed: 0..4, the rows evaluated at length 4"
    assert "there is no row -1" in refused(row=-1)
    assert refused(distribution="spare").endswith("(did you mean 'sparse'?); allowed: 'iid', 'sparse', 'dense'")
    of = member(FLIPS, {"name": "lstm", "width": 8})
    weights = initial(of)
    assert refused() == "model.name: lstm has no attention weights"
