"""Randomized positions: what is drawn, for whom, and that they are those of the base."""

from dataclasses import replace

import pytest
import torch

from tests.trainers.positions.passes import TASK, B, D, H, M, T, drawn, noise, tokens_of
from trainers.config.member import MemberConfig
from trainers.errors import ConfigError
from trainers.evaluation.forward import Forward
from trainers.models.decoder import Decoder
from trainers.models.encoder import Encoder
from trainers.positions.randomized import Randomized
from trainers.settings import registry
from trainers.tensors.batch import Batch

BASES: dict[str, str | dict] = {
    name: {"name": name, **({"threshold": 2.0} if name == "fire" else {})}
    for name in registry.list_names("position")
    if name not in ("abacus", "significance", "randomized")  # two do not go by ids, or by tokens as well
}


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("base", BASES.values(), ids=BASES)
def test_random_positions_out_of_just_enough_are_the_base(base, causal: bool) -> None:
    plain = (Decoder if causal else Encoder)(layers=2, width=D, heads=H, position=base)
    random = replace(plain, position=Randomized(longest=TASK.positions, base=base))
    assert plain.parameters(TASK) == random.parameters(TASK)
    tokens, weights = tokens_of((M, B, TASK.positions), TASK.inputs), drawn(plain, TASK)
    expected = plain.logits(weights, Batch(tokens, tokens), None, "plain")
    got = random.logits(weights, Batch(tokens, tokens), noise(0, 1), "plain")
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("draw", ["batch", "row"])
def test_positions_are_distinct_ascending_and_all_of_them(draw: str) -> None:
    position = Randomized(longest=40, draw=draw)
    ids = torch.stack([position.assign_ids(None, (2, 50, T), noise(0, 1, step=step)) for step in range(60)])
    assert (ids.diff(dim=-1) > 0).all() and set(ids.flatten().tolist()) == set(range(40))
    draws = {tuple(row) for row in ids.flatten(0, 2).tolist()}
    assert len(draws) > 110 if draw == "batch" else len(draws) > 5500
    assert (ids[:, :, :1] == ids).all() == (draw == "batch")
    assert (ids[:, 0] != ids[:, 1]).any(dim=-1).all()  # another draw for every seed


@pytest.mark.parametrize("draw", ["batch", "row"])
def test_positions_are_drawn_in_tests_too_and_pieces_have_those_of_the_whole(draw: str) -> None:
    model = Decoder(layers=1, width=D, heads=H, position=Randomized(longest=40, base="learned", draw=draw))
    same = Batch(*[tokens_of((1, 1, T), TASK.inputs).expand(M, 8, T)] * 2)
    weights = {name: value[:1].expand(M, *value.shape[1:]) for name, value in drawn(model, TASK).items()}
    whole = Forward(model, weights, "plain", noise(0, 1, training=False))(same)
    rows = whole.flatten(2).flatten(0, 1)
    assert len({tuple(row.tolist()) for row in rows}) == (2 if draw == "batch" else 2 * 8)
    pieces = [
        Forward(model, weights, "plain", noise(0, 1, training=False, first=first, total=8))(
            same.slice_rows(first, last)
        )
        for first, last in ((0, 3), (3, 8))
    ]
    torch.testing.assert_close(torch.cat(pieces, dim=1), whole, rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="need noise"):
        model.logits(weights, same, None, "plain")


def test_what_cannot_be_is_refused(sections) -> None:
    model = {"name": "decoder", "layers": 1, "width": 6, "heads": 2}
    with pytest.raises(ConfigError, match=r"(?s)model.position.longest.*7 positions.*>= 7"):
        few = {"name": "randomized", "longest": 6, "base": "alibi"}
        MemberConfig.from_dict(sections(model={**model, "position": few}))
    with pytest.raises(ConfigError, match=r"(?s)model.position.base.*even head width"):
        MemberConfig.from_dict(sections(model={**model, "position": {"name": "randomized", "base": "rope"}}))
    with pytest.raises(ConfigError, match=r"(?s)model.position.base.uniform.*multiplier"):
        base = {"name": "upe", "uniform": 1}
        MemberConfig.from_dict(sections(model={**model, "position": {"name": "randomized", "base": base}}))


def test_what_random_positions_break_is_refused_and_trains_on_where_it_was_recorded(sections) -> None:
    for base, message in (
        ({"name": "upe", "uniform": 2}, r"^model\.position\.base: upe needs the multiplier"),
        (
            {"name": "randomized", "base": "learned"},
            r"^model\.position\.base: a randomized base has no effect",
        ),
    ):
        plain = sections(
            task={"name": "padded_multiplication", "number_digits": 4, "train_digits": 2, "multiplier_digits": 2},
            model={"name": "decoder", "layers": 1, "width": 8, "heads": 2},
        )
        plain["model"]["position"] = {"name": "randomized", "base": base}
        with pytest.raises(ConfigError, match=message):
            MemberConfig.from_dict(plain)
        assert MemberConfig.from_dict(plain, recorded=True).model.position.base.name == base["name"]
