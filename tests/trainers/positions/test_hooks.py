"""What holds for the hooks of every encoding: random sites, optional biases, ids, what layers record."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import torch

from tests.trainers.own_tasks import Last
from tests.trainers.positions.passes import TASK, B, D, E, H, M, T, attended, drawn, layer, layer_of, noise, tokens_of
from trainers.evaluation.evaluate import evaluate
from trainers.evaluation.forward import Forward
from trainers.models.decoder import Decoder
from trainers.models.encoder import Encoder
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.positions.context import Scores
from trainers.positions.nope import Nope
from trainers.positions.tra import ThresholdRelative
from trainers.settings import registry
from trainers.tasks.set_complement import SetComplement
from trainers.tensors.batch import Batch

CPU = torch.device("cpu")
TOKENS = tokens_of((M, B, T), TASK.inputs)


def test_a_bias_beside_logits_is_refused() -> None:
    with pytest.raises(ValueError, match="both a bias and logits"):
        Scores(bias=torch.zeros(()), logits=torch.zeros(()))


def test_every_layer_place_and_chunk_has_a_random_site_of_its_own() -> None:
    layer = layer_of(torch.zeros(1, 1, 1, 1, E), {})
    sites = [
        replace(layer, layer=number, chunk=chunk).site(draw)
        for number, chunk, draw in product((0, 1, 331), (0, 1, 127), (0, 15))
    ]
    of_models = [0, 1000, 1001, *range(1, 997)]
    assert len({*sites, *of_models}) == len(sites) + len(of_models) and max(sites) < 2**20
    with pytest.raises(ValueError, match=r"draw 16 of block0; allowed: 0\.\.15"):
        layer.site(16)


def test_biases_are_optional() -> None:
    weights, x = layer(Nope())
    zero = {name: torch.zeros_like(value) if name.endswith("_bias") else value for name, value in weights.items()}
    none = {name: value for name, value in weights.items() if not name.endswith(("qkv_bias", "output_bias"))}
    assert torch.equal(attended(Nope(), none, x), attended(Nope(), zero, x))


BY_IDS: dict[str, str | dict] = {
    name: {"name": name, **({"threshold": 2.0} if name == "fire" else {})}
    for name in registry.list_names("position")
    if name not in ("abacus", "significance", "tra", "fox", "cope", "randomized")  # by tokens, order, or draws
}


@pytest.mark.parametrize("base", BY_IDS.values(), ids=BY_IDS)
def test_tokens_in_another_order_with_their_ids_are_the_same_tokens(base) -> None:
    model = Encoder(layers=2, width=D, heads=H, position=base)
    weights, order = drawn(model, TASK), torch.tensor([4, 2, 0, 5, 1, 3])
    plain = model.logits(weights, Batch(TOKENS, TOKENS), None, "plain")
    moved = TOKENS[..., order]
    got = model.logits(weights, Batch(moved, moved, ids=order.expand(M, B, T)), None, "plain")
    torch.testing.assert_close(got, plain[:, :, order], rtol=1e-12, atol=1e-12)


MEANS, GREATEST = ("surviving_keys", "dead_rows", "gate"), "contextual_distance"


@pytest.mark.parametrize("task", [SetComplement(vocabulary=8, train_length=3), Last()], ids=["together", "apart"])
def test_what_layers_record_becomes_a_metric_at_every_length(member, task) -> None:
    """The mean or greatest value at the last position of each length; of a batch of one length, at all positions."""
    model = Decoder(layers=2, width=D, heads=H, position=ThresholdRelative())
    assert tuple(model.metrics) == (*MEANS, GREATEST)
    pack = Pack([replace(member(seed, evaluation={"samples": 4}), model=model, task=task) for seed in (0, 1)], CPU)
    state = TrainingState.make_initial(pack)
    names, values = evaluate(pack, state)
    tests = list(pack.task.evaluation_batches(pack_stream(pack), 4, pack.lengths))
    assert len(tests) == (len(pack.lengths) if isinstance(task, Last) else 1)
    for test in tests:
        forward = Forward(model, pack.layout.split(state.theta), "plain", noise(0, 1, training=False))
        forward(test.batch)
        for name in (*MEANS, GREATEST):
            layers = forward.recorded[name]
            assert len(layers) == 2 and layers[0].shape[:3] == (2, test.batch.tokens.shape[1], H)
            for length in test.lengths:
                at = torch.stack(layers)[..., length - 1 if len(test.lengths) > 1 else 0 : length]
                expected = (torch.amax if name == GREATEST else torch.mean)(at, dim=(0, 2, 3, 4))
                column = pack.lengths.index(length)
                np.testing.assert_allclose(values[:, 0, names.index(name), column], expected, rtol=1e-5)


def pack_stream(pack: Pack):
    return replace(noise(0).stream, seeds_S=pack.seeds_S, name="eval", step=torch.zeros((), dtype=torch.int64))
