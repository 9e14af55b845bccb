"""Maps of weights: every registered model and positional encoding keeps to the hook, and the numbers are right."""

from collections.abc import Iterator, Mapping

import numpy as np
import pytest
import torch

from trainers.config.member import MemberConfig
from trainers.errors import ConfigError
from trainers.models.transformer import Transformer
from trainers.packs.pack import Pack, State
from trainers.positions.position import Position
from trainers.settings import registry
from trainers.tensors.batch import Batch
from trainers.tensors.position_maps import Map

TASKS = (
    {"name": "set_complement", "vocabulary": 12, "train_length": 5},
    {"name": "padded_multiplication", "number_digits": 4, "train_digits": 2},
    {"name": "ring_regression", "ring": 11, "window": 4},
)
SIZES = {"width": 16, "layers": 2, "heads": 4}


class Weights(Mapping[str, np.ndarray]):
    """Arrays of one member that remember which were asked for."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.arrays, self.read = arrays, set[str]()

    def __getitem__(self, name: str) -> np.ndarray:
        self.read.add(name)
        return self.arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)


def initial(member: MemberConfig) -> Weights:
    pack = Pack([member], torch.device("cpu"))
    views = pack.layout.views(State.initial(pack).theta)
    return Weights({name: value[0].numpy().copy() for name, value in views.items()})


def member_with(model: dict, task: dict) -> MemberConfig:
    training = {"steps": 1, "batch_size": 2, "learning_rate": 0.1}
    return MemberConfig.from_dict({"task": task, "model": model, "training": training, "seed": 1})


def first_that_fits(model: dict) -> MemberConfig:
    for task in TASKS:
        try:
            return member_with(model, task)
        except ConfigError as error:
            refused = error
    raise refused


def check(maps: Mapping[str, Map]) -> None:
    for name, one in maps.items():
        assert isinstance(name, str) and isinstance(one, Map) and one.group and one.row_label
        assert one.values.ndim in (1, 2) and np.isfinite(one.values).all()
        assert bool(one.column_label) == (one.values.ndim == 2)
        assert all(type(at) is int for at in (*one.rows, *one.columns))
        assert all(np.diff(at).tolist() == [1] * (len(at) - 1) for at in (one.rows, one.columns) if len(at))
        assert one.trained is None or one.trained.dtype == bool
    panels = [(one.group, one.title) for one in maps.values()]
    assert len(set(panels)) == len(panels)
    assert all(len({one.values.ndim for one in maps.values() if one.group == group}) == 1 for group, _ in panels)


def everyone() -> list[tuple[str, dict]]:
    found = []
    for name in registry.names("model"):
        cls = registry.lookup("model", name)
        sizes = {key: size for key, size in SIZES.items() if key in cls.__dataclass_fields__}
        if name != "vmapped":  # a module of one's own, which has none
            found.append((name, {"name": name, **sizes}))
        if issubclass(cls, Transformer):
            for position in registry.names("position"):
                found.append((f"{name}-{position}", {"name": name, **sizes, "position": position}))
    return found


@pytest.mark.parametrize("model", [model for _, model in everyone()], ids=[name for name, _ in everyone()])
def test_maps_are_pure_and_read_no_more_than_they_draw(model) -> None:
    member = first_that_fits(model)
    weights = initial(member)
    before = {name: array.copy() for name, array in weights.arrays.items()}
    maps = member.model.maps(weights, member.task)
    check(maps)
    position = getattr(member.model, "position", None)
    if position is not None and type(position).maps is Position.maps:
        assert not maps
    assert bool(maps) == bool(weights.read)
    assert not {name for name in weights.read if name.endswith(("embedding", "qkv", "output", "in", "out", "head"))}
    again = member.model.maps(initial(member), member.task)
    assert list(again) == list(maps)
    for name, array in before.items():
        assert np.array_equal(weights.arrays[name], array)
    assert all(np.array_equal(again[name].values, one.values) for name, one in maps.items())


def test_relative_vectors_and_their_norms() -> None:
    member = member_with({"name": "encoder", **SIZES, "position": "rpe"}, TASKS[1])
    weights = initial(member)
    maps, longest = member.model.maps(weights, member.task), member.task.positions
    assert list(maps) == ["p.1", "p.2", "p.norm.1", "p.norm.2"] and longest == 7
    for layer in (1, 2):
        table = weights[f"block{layer - 1}.pairs"]
        vectors, norms = maps[f"p.{layer}"], maps[f"p.norm.{layer}"]
        assert vectors.title == norms.title == f"layer {layer}" and vectors.row_label == "k = i - j"
        assert list(vectors.columns) == [1, 2, 3, 4] and list(vectors.rows) == list(norms.rows) == list(range(-6, 7))
        for k in vectors.rows:
            at = list(vectors.rows).index(k)
            assert np.array_equal(vectors.values[at], table[k + longest - 1])  # the row of p_k in attention
            assert norms.values[at] == pytest.approx(sum(float(x) ** 2 for x in table[k + longest - 1]) ** 0.5)


def test_uniform_vectors_have_maps_of_their_own_by_significance() -> None:
    task = {**TASKS[1], "multiplier_digits": 3}
    member = member_with({"name": "encoder", **SIZES, "position": {"name": "upe", "uniform": 3}}, task)
    weights = initial(member)
    maps, longest = member.model.maps(weights, member.task), member.task.positions
    assert list(maps)[:4] == ["p.1", "p.2", "p.norm.1", "p.norm.2"]
    for layer in (1, 2):
        table = weights[f"block{layer - 1}.pairs"]
        assert np.array_equal(maps[f"p.{layer}"].values, table[: 2 * longest - 1])
        assert list(maps[f"p.{layer}"].rows) == list(range(1 - longest, longest))
        own = maps[f"c.{layer}"]
        assert list(own.rows) == [1, 2, 3] and np.array_equal(own.values, table[2 * longest - 1 :])
        np.testing.assert_allclose(maps[f"c.norm.{layer}"].values, np.sqrt((table[-3:] ** 2).sum(1)), rtol=1e-6)


def test_products_of_learned_positions_and_which_were_trained() -> None:
    position = {"name": "learned", "max_offset": 2}
    member = member_with({"name": "decoder", **SIZES, "position": position}, TASKS[0])
    weights = initial(member)
    (one,) = member.model.maps(weights, member.task).values()
    table = weights["positions"]
    assert len(table) == member.task.positions + 2
    np.testing.assert_allclose(one.values, np.einsum("id,jd->ij", table, table), rtol=1e-5, atol=1e-9)
    trained = np.zeros(len(table), bool)
    trained[: member.task.train_positions + 2] = True
    assert np.array_equal(one.trained, trained[:, None] & trained[None, :]) and not one.trained.all()
    assert list(one.rows) == list(one.columns) == list(range(1, len(table) + 1))


@pytest.mark.parametrize("augmented", [False, True])
def test_gram_matrix_of_the_ring(augmented) -> None:
    member = member_with(
        {"name": "linear_attention", "width": 6, "encoding": "ape"}, {**TASKS[2], "augmented": augmented}
    )
    weights = initial(member)
    (one,) = member.model.maps(weights, member.task).values()
    p = weights["positions"]
    for i in range(11):
        for r in range(11):
            apart = min(abs(i - r), 11 - abs(i - r))
            assert one.values[i, r] == pytest.approx(float(np.dot(p[i], p[r])), rel=1e-5)
            assert one.wanted[i, r] == {0: 2.0, 1: 0.5}.get(apart, 0.0)
            inside = i + 1 in member.task.trained_lengths and r + 1 in member.task.trained_lengths
            assert one.trained[i, r] == (apart < 4 if augmented else inside)


@pytest.mark.parametrize(("ring", "free"), [(11, False), (10, False), (11, True)])
def test_coefficients_of_the_ring(ring, free) -> None:
    model = {"name": "linear_attention", "width": 6, "encoding": "rpe", "free_value": free}
    member = member_with(model, {**TASKS[2], "ring": ring})
    weights = initial(member)
    (one,) = member.model.maps(weights, member.task).values()
    assert list(one.rows) == (list(range(-5, 6)) if ring == 11 else list(range(-4, 6)))
    empty = torch.zeros(1, 1, ring)
    logits = member.model.logits(
        {name: torch.from_numpy(weights[name])[None] for name in weights}, Batch(empty, empty), None, "plain"
    )
    given = logits[0, 0, :, :ring].numpy()  # what the model computes with, for theta the first unit vector
    for k, value, wanted, trained in zip(one.rows, one.values, one.wanted, one.trained, strict=True):
        assert value == pytest.approx(float(given[(3 + k) % ring, 3]), rel=1e-5, abs=1e-6)
        assert wanted == {0: 2.0, 1: 0.5, -1: 0.5}.get(k, 0.0) and trained == (abs(k) < 4)


def test_a_map_of_other_shape_than_its_coordinates_is_refused() -> None:
    with pytest.raises(ValueError, match=r"map of g has shape \(3,\) and coordinates \(2,\)"):
        Map(values=np.zeros(3), group="g", row_label="x", rows=[1, 2])
    with pytest.raises(ValueError, match="shape"):
        Map(values=np.zeros(2), group="g", row_label="x", rows=[1, 2], wanted=np.zeros(1))
