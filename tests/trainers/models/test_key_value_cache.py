"""Passes that go on from kept keys: the logits of whole passes, for every encoding that a causal model can have."""

from collections.abc import Iterator
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from tests.trainers.positions.own_positions import Everything
from tests.trainers.positions.passes import drawn, noise, tokens_of
from trainers.evaluation.forward import Forward
from trainers.models.attention_only import AttentionOnly
from trainers.models.decoder import Decoder
from trainers.models.encoder import Encoder
from trainers.models.model import Model
from trainers.positions.fire import Fire
from trainers.positions.position import Position
from trainers.positions.randomized import Randomized
from trainers.positions.shaw import Shaw
from trainers.positions.tra import ThresholdRelative
from trainers.settings import registry
from trainers.tasks.arithmetic.padded_multiplication import PaddedMultiplication
from trainers.tensors.batch import Batch

TASK = PaddedMultiplication(multiplier_digits=1, number_digits=8, train_digits=2)  # longer than any row here
M, B, T, WIDTH = 2, 3, 9, 11
OWN = {
    "shaw, values": Shaw(clip=2, values=True),
    "tra, absolute": ThresholdRelative(distance="absolute", gate="head"),
    "tra, no threshold": ThresholdRelative(threshold=False),
    "everything": Everything(),
    "randomized learned": Randomized(longest=32, base="learned"),
    "randomized everything": Randomized(longest=32, base=Everything(), draw="row"),
}
SHIPPED: dict[str, str | Position] = {name: name for name in registry.list_names("position") if name != "significance"}
SHIPPED |= {"fire": Fire(threshold=3.0), "randomized": Randomized(longest=32)}
POSITIONS: dict[str, str | Position] = {**SHIPPED, **OWN}
IDS = {"default": None, "restarting": [0, 1, 2, 3, 3, 4, 3, 4, 5]}


def forward_of(model: Model) -> Forward:
    return Forward(model, drawn(model, TASK), model.choose_form(TASK), noise(0, 1, training=False))


def batch_of(length: int = T, ids: list[int] | None = None, groups: list[int] | None = None) -> Batch:
    given = [None if row is None else torch.tensor(row).expand(M, B, -1)[..., :length] for row in (ids, groups)]
    tokens = tokens_of((M, B, length), TASK.inputs)
    return Batch(tokens, tokens, *given)


def part(batch: Batch, first: int, last: int) -> tuple[Tensor, Tensor | None]:
    return batch.tokens[..., first:last], None if batch.ids is None else batch.ids[..., first:last]


def gone_on(forward: Forward, batch: Batch, edges: tuple[int, ...], width: int = WIDTH) -> Iterator[Tensor]:
    """The logits of a first part, and of each part up to the next edge."""
    tokens, ids = part(batch, 0, edges[0])
    logits, cache = forward.prefill(Batch(tokens, tokens, ids), width)
    yield logits
    for first, last in pairwise(edges):
        logits, cache = forward.decode(cache, *part(batch, first, last))
        assert cache.length == last
        yield logits


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
@pytest.mark.parametrize("position", POSITIONS.values(), ids=POSITIONS)
def test_parts_of_a_pass_have_the_logits_of_the_whole(position, ids) -> None:
    forward = forward_of(Decoder(layers=2, width=8, heads=2, position=position))
    batch = batch_of(ids=ids)
    whole, random = forward(batch), isinstance(position, Randomized)
    for edges in ((9,), (1, 2, 3, 4, 5, 6, 7, 8, 9), (3, 7, 9)):
        parts = torch.cat(list(gone_on(forward, batch, edges, T if random else WIDTH)), dim=2)
        torch.testing.assert_close(parts, whole, rtol=1e-12, atol=1e-12)
    assert whole.std() > 0.1


@pytest.mark.parametrize("ids", IDS.values(), ids=IDS)
@pytest.mark.parametrize("position", POSITIONS.values(), ids=POSITIONS)
def test_what_is_hidden_is_what_groups_hide(position, ids) -> None:
    forward = forward_of(Decoder(layers=2, width=8, heads=2, position=position))
    groups = [0, 0, 0, 1, 1, 1, 2, 2, 2]
    batch = batch_of(ids=ids, groups=groups)
    whole = forward(batch)
    tokens, first_ids = part(batch, 0, 3)
    logits, cache = forward.prefill(Batch(tokens, tokens, first_ids), T)
    pieces = [logits]
    for group, edges in ((1, (3, 4, 6)), (2, (6, 8, 9))):
        seen = (batch.groups == group) | (batch.groups == 0)
        for first, last in pairwise(edges):
            logits, cache = forward.decode(cache, *part(batch, first, last), visible_MBK=seen)
            pieces.append(logits)
    torch.testing.assert_close(torch.cat(pieces, dim=2), whole, rtol=1e-12, atol=1e-12)
    assert not torch.allclose(forward(batch_of(ids=ids)), whole)


@pytest.mark.parametrize("model", [Decoder(layers=2, width=8, heads=2, position="rope"), AttentionOnly(width=8)])
def test_a_cache_that_is_cut_goes_on_as_if_nothing_had_followed(model) -> None:
    forward = forward_of(model)
    tokens, flipped = batch_of().tokens, batch_of().tokens.flip(-1)
    _, cache = forward.prefill(Batch(tokens[..., :4], tokens[..., :4]), T)
    _, cache = forward.decode(cache, flipped[..., 4:8])
    logits, cache = forward.decode(cache.truncate(4), tokens[..., 4:7])
    assert cache.length == 7
    whole = forward(Batch(tokens[..., :7], tokens[..., :7]))
    torch.testing.assert_close(logits, whole[:, :, 4:], rtol=1e-12, atol=1e-12)


def test_keys_are_computed_once(monkeypatch) -> None:
    forward = forward_of(Decoder(layers=2, width=8, heads=2, position="rope"))
    counted = []
    rotate = type(forward.model.position).rotate
    monkeypatch.setattr(
        type(forward.model.position), "rotate", lambda self, c: counted.append(c.count) or rotate(self, c)
    )
    list(gone_on(forward, batch_of(), (4, 5, 7)))
    assert counted == [4, 4, 1, 1, 2, 2]


CANNOT = {
    "encoder": Encoder(layers=1, width=8, heads=2, position="rope"),
    "looks ahead": Decoder(layers=1, width=8, heads=2, position="significance"),
    "no cache": AttentionOnly(width=8),
}


@pytest.mark.parametrize("model", CANNOT.values(), ids=CANNOT)
def test_models_that_keep_nothing_encode_again(model) -> None:
    forward, batch = forward_of(model), batch_of()
    for last, logits in zip((4, 5, 7), gone_on(forward, batch, (4, 5, 7)), strict=True):
        tokens = batch.tokens[..., :last]
        torch.testing.assert_close(logits, forward(Batch(tokens, tokens))[:, :, last - logits.shape[2] :])
    _, cache = forward.prefill(Batch(tokens, tokens), WIDTH)
    with pytest.raises(ValueError, match="cannot mask positions"):
        forward.decode(cache, tokens[..., :1], visible_MBK=torch.ones(M, B, WIDTH, dtype=torch.bool))
    with pytest.raises(ValueError, match="groups"):
        _, cache = forward.prefill(Batch(tokens, tokens, groups=torch.zeros_like(tokens)), WIDTH)
        forward.decode(cache, tokens[..., :1])


def test_too_many_tokens_and_ids_of_some_are_refused() -> None:
    forward, batch = forward_of(Decoder(layers=1, width=8, heads=2)), batch_of()
    with pytest.raises(ValueError, match="9 tokens do not fit into a cache of 8"):
        forward.prefill(batch, 8)
    _, cache = forward.prefill(batch, 10)
    with pytest.raises(ValueError, match=r"9 \+ 2 tokens do not fit into a cache of 10"):
        forward.decode(cache, batch.tokens[..., :2])
    with pytest.raises(ValueError, match="only some tokens have position ids"):
        forward.decode(cache, *part(batch_of(ids=IDS["restarting"]), 0, 1))


def test_an_encoding_may_leave_the_ids_it_is_given() -> None:
    """Its tokens are then at 0, 1, 2... also where a pass goes on."""

    class Blind(Position):
        def assign_ids(self, ids_MBT, shape, noise):
            return None

    forward = forward_of(Decoder(layers=1, width=8, heads=2, position=Blind()))
    batch = batch_of(ids=IDS["restarting"])
    whole = forward(batch)
    torch.testing.assert_close(torch.cat(list(gone_on(forward, batch, (4, 5, 9))), dim=2), whole)
