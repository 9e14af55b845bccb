"""Heads for numbers in text: pairwise vectors by digit significance, beside ordinary heads of a width of their own."""

import doctest
import math

import pytest
import torch
from torch.nn import functional

from tests.trainers.positions.passes import bias_of, pass_of, sizes
from trainers.config.member import MemberConfig
from trainers.evaluation.evaluate import evaluate
from trainers.models.attention import attention
from trainers.models.encoder import Encoder
from trainers.packs.pack import Pack, State
from trainers.positions.learned import Learned
from trainers.positions.rpe import Rpe
from trainers.positions.significance import Significance
from trainers.positions.upe import Upe
from trainers.tasks.arithmetic.padded_addition import PaddedAddition
from trainers.tasks.arithmetic.padded_multiplication import PaddedMultiplication
from trainers.tasks.set_complement import SetComplement
from trainers.tensors import numerals
from trainers.tensors.batch import Batch
from trainers.tensors.numerals import PAD, PLUS, TEXT, TIMES
from trainers.tensors.parameters import ParameterLayout
from trainers.training.step import step_once

M, K, LONGEST = 2, 4, 12
ADDED = Significance(ordinary=0)
FIRST, SECOND = [PAD, 4, 0], [PAD, PAD, 9, 7]


def written(first: list[int], second: list[int], gaps: tuple[int, int, int], sign: int = PLUS, longest: int = LONGEST):
    """Tokens of one sequence, and where it has the tokens of its first and of its second number."""
    a, b, c = gaps
    tokens = [TEXT] * a + first + [TEXT + 1] * b + [sign] + second + [TEXT] * c
    start = a + len(first) + b + 1
    tokens += [TEXT + 2] * (longest - len(tokens))
    return tokens, list(range(a, a + len(first))), list(range(start, start + len(second)))


def queries(rows: int, heads: int = 3, length: int = LONGEST) -> torch.Tensor:
    return torch.randn(M, rows, heads, length, K, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def table(position, heads: int = 3, longest: int = LONGEST) -> dict[str, torch.Tensor]:
    (parameter,) = position.layer_parameters("block0", sizes(longest, heads, K))
    generator = torch.Generator().manual_seed(1)
    return {parameter.name: torch.randn(M, *parameter.shape, generator=generator, dtype=torch.float64)}


def scored(position, q, tokens, weights) -> torch.Tensor:
    every = torch.tensor(tokens).expand(M, -1, -1)
    return bias_of(position, q, weights, tokens=every).expand(*q.shape[:-1], q.shape[-2])


SEQUENCES = [
    written(FIRST, SECOND, (0, 0, 0)),
    written(FIRST, SECOND, (2, 0, 1)),
    written(FIRST, SECOND, (0, 3, 1)),
    written(FIRST, SECOND, (1, 1, 2)),
]


@pytest.mark.parametrize("uniform", [0, 3])
def test_each_pair_has_the_vector_of_its_virtual_indices(uniform: int) -> None:
    position = Significance(ordinary=1, uniform=uniform)
    q, weights = queries(len(SEQUENCES)), table(position)
    got = scored(position, q, [tokens for tokens, _, _ in SEQUENCES], weights)
    pairs = weights["block0.pairs"]
    for row, (_, first, second) in enumerate(SEQUENCES):
        virtual = {t: len(second) - n for n, t in enumerate(second)}  # most significant first
        virtual.update({t: len(second) + 1 + len(first) - n for n, t in enumerate(first)})
        for head in range(3):
            for i in range(LONGEST):
                for j in range(LONGEST):
                    vector = torch.zeros(M, K, dtype=torch.float64)
                    if head > 0 and i in virtual and j in virtual:
                        vector = pairs[:, LONGEST - 1 + virtual[j] - virtual[i]]
                        if uniform and j in first:
                            vector = pairs[:, 2 * LONGEST - 1 + len(first) - 1 - first.index(j)]
                    expected = (q[:, row, head, i] * vector).sum(-1) / math.sqrt(K)
                    torch.testing.assert_close(got[:, row, head, i, j], expected)


@pytest.mark.parametrize("uniform", [0, 3])
def test_text_before_between_and_after_does_not_change_pairs_of_numbers(uniform: int) -> None:
    position = Significance(ordinary=0, uniform=uniform)
    weights, plain = table(position), None
    own = torch.randn(M, 1, 3, 7, K, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    for tokens, first, second in SEQUENCES:
        q = queries(1)
        q[..., first + second, :] = own  # a digit's query is its own, wherever it stands
        at = torch.tensor(first + second)
        pairs = scored(position, q, [tokens], weights)[..., at[:, None], at]
        plain = pairs if plain is None else plain
        assert torch.equal(pairs, plain) and pairs.abs().min() > 0


def test_pairs_with_text_or_the_operator_and_ordinary_heads_have_no_vector() -> None:
    q, weights = queries(len(SEQUENCES)), table(Significance())
    got = scored(Significance(ordinary=2), q, [tokens for tokens, _, _ in SEQUENCES], weights)
    assert not got[:, :, :2].any()
    for row, (_, first, second) in enumerate(SEQUENCES):
        others = sorted(set(range(LONGEST)) - set(first + second))
        assert len(others) == LONGEST - 7
        assert not got[:, row, :, others].any() and not got[:, row, :, :, others].any()
        assert got[:, row, 2, first][..., second].all()


def test_half_of_the_heads_are_ordinary_unless_said() -> None:
    q, weights = queries(1, heads=4), table(Significance())
    torch.testing.assert_close(
        scored(Significance(), q, [SEQUENCES[0][0]], weights),
        scored(Significance(ordinary=2), q, [SEQUENCES[0][0]], weights),
    )


@pytest.mark.parametrize(
    ("position", "plain", "sign", "first"),
    [(ADDED, Rpe(), PLUS, [1, 2, 3, 4]), (Significance(ordinary=0, uniform=3), Upe(uniform=3), TIMES, [1, 2, 3])],
)
def test_without_text_it_is_rpe_or_upe_on_pairs_of_numbers(position, plain, sign: int, first: list[int]) -> None:
    longest = len(first) + 5
    tokens, one, two = written(first, [PAD, 6, 5, 4], (0, 0, 0), sign, longest)
    q, weights = queries(1, length=longest), table(position, longest=longest)
    assert weights["block0.pairs"].shape == table(plain, longest=longest)["block0.pairs"].shape
    at = torch.tensor(one + two)
    assert len(at) == longest - 1
    got, expected = (scored(each, q, [tokens], weights)[..., at[:, None], at] for each in (position, plain))
    assert torch.equal(got, expected)


def test_the_table_learns_and_decays_but_only_where_pairs_are() -> None:
    position = Significance(ordinary=1)
    (parameter,) = position.layer_parameters("block0", sizes(LONGEST, 3, K))
    assert parameter.decay and parameter.shape == (2 * LONGEST - 1, K)
    weights = {name: value.requires_grad_() for name, value in table(position).items()}
    scored(position, queries(1), [SEQUENCES[3][0]], weights).square().sum().backward()
    touched = weights["block0.pairs"].grad.abs().sum(-1) > 0
    index = [4, 3, 2, 1, 8, 7, 6]  # v of the second number of four digits, then of the first of three
    used = {LONGEST - 1 + v - w for v in index for w in index}
    assert touched.tolist() == [[row in used for row in range(2 * LONGEST - 1)]] * M


def test_the_examples_of_numerals() -> None:
    assert doctest.testmod(numerals).attempted >= 2 and doctest.testmod(numerals).failed == 0


TEXT_TASKS = [
    ({"name": "padded_addition", "width": 4, "train_digits": 2, "text_tokens": 3, "text_ids": 5}, 0),
    ({"name": "padded_multiplication", "multiplier_digits": 2, "number_digits": 3, "train_digits": 2}, 2),
    (
        {
            "name": "padded_multiplication",
            "multiplier_digits": 2,
            "number_digits": 3,
            "train_digits": 2,
            "text_tokens": 2,
        },
        2,
    ),
]


def text_member(seed: int, task: dict, uniform: int, **model) -> MemberConfig:
    position = {"name": "significance", "uniform": uniform}
    model = {"name": "encoder", "layers": 2, "width": 8, "heads": 4, "head_width": 4, "position": position, **model}
    training = {"steps": 12, "batch_size": 8, "learning_rate": 0.01, "weight_decay": 0.1, "compile": False}
    return MemberConfig.from_dict(
        {"task": task, "model": model, "training": training, "evaluation": {"samples": 8}, "seed": seed}
    )


@pytest.mark.parametrize(("task", "uniform"), TEXT_TASKS)
def test_alone_equals_packed_bit_for_bit(task: dict, uniform: int) -> None:
    found = []
    for seeds in ([5], [1, 5, 2]):
        pack = Pack(
            [text_member(seed, task, uniform, dropout=0.1 + 0.1 * (seed == 1)) for seed in seeds], torch.device("cpu")
        )
        state = State.initial(pack)
        for _ in range(8):
            step_once(pack, state)
        place = seeds.index(5)
        found.append((state.theta[place], torch.from_numpy(evaluate(pack, state)[1][place])))
    for one, other in zip(*found, strict=True):
        assert torch.isfinite(one).any() and torch.equal(torch.nan_to_num(one), torch.nan_to_num(other))


def test_heads_of_a_width_of_their_own_attend_one_by_one() -> None:
    heads, width, inner = 3, 5, 6
    generator = torch.Generator().manual_seed(4)
    shapes = {"a.qkv": (width, 18), "a.qkv_bias": (18,), "a.output": (6, width), "a.output_bias": (width,)}
    w = {key: torch.randn(1, *shape, generator=generator, dtype=torch.float64) for key, shape in shapes.items()}
    x = torch.randn(1, 2, 4, width, generator=generator, dtype=torch.float64)
    tokens = torch.zeros(1, 2, 4, dtype=torch.int64)
    got = attention(x, pass_of(tokens, w, False), name="a", layer=0, heads=heads, position=Learned())
    expected = w["a.output_bias"][0].expand_as(x)
    for head in range(heads):
        q, k, v = (
            x @ w["a.qkv"][0][:, part * inner + 2 * head : part * inner + 2 * head + 2]
            + w["a.qkv_bias"][0][part * inner + 2 * head : part * inner + 2 * head + 2]
            for part in range(3)
        )
        mixed = functional.softmax(q @ k.mT / math.sqrt(2), dim=-1) @ v
        expected = expected + mixed @ w["a.output"][0][2 * head : 2 * head + 2]
    torch.testing.assert_close(got, expected)


TASK = PaddedAddition(width=4, train_digits=2, text_tokens=3, text_ids=5)


def shapes_of(**model) -> dict[str, tuple[int, ...]]:
    return {p.name: p.shape for p in Encoder(dropout=0.0, **model).parameters(TASK)}


def test_a_head_width_that_fills_the_width_changes_nothing() -> None:
    plain, same = ({"layers": 1, "width": 8, "heads": 2, "head_width": width} for width in (None, 4))
    assert shapes_of(**plain) == shapes_of(**same)
    assert Encoder(**plain).operations(TASK, 3, 5) == Encoder(**same).operations(TASK, 3, 5)
    assert list(shapes_of(**plain).items())[3:7] == [
        ("block0.qkv", (8, 24)),
        ("block0.qkv_bias", (24,)),
        ("block0.output", (8, 8)),
        ("block0.output_bias", (8,)),
    ]


def test_the_size_of_the_paper() -> None:
    found = shapes_of(layers=1, width=768, heads=16, head_width=96, position="significance")
    assert found["block0.qkv"] == (768, 3 * 1536) and found["block0.output"] == (1536, 768)
    assert found["block0.pairs"] == (2 * TASK.positions - 1, 96) and found["positions"] == (TASK.positions, 768)


def test_without_the_output_of_its_added_heads_it_is_a_model_with_absolute_positions() -> None:
    both = Encoder(layers=2, width=8, heads=4, head_width=3, position="significance", dropout=0.0)
    alone = Encoder(layers=2, width=8, heads=2, head_width=3, position="learned", dropout=0.0)
    layout = ParameterLayout(both.parameters(TASK))
    views = layout.views(torch.randn(1, layout.size, generator=torch.Generator().manual_seed(2), dtype=torch.float64))
    own = {}
    for name, value in views.items():
        value = value.clone()
        if name.endswith("output"):
            value[:, 6:] = 0.0
        views[name] = own[name] = value
        if name.endswith("output"):
            own[name] = value[:, :6]
        if "qkv" in name:
            parts = value.chunk(3, dim=-1)
            own[name] = torch.cat([part[..., :6] for part in parts], dim=-1)
    tokens = torch.tensor([[SEQUENCES[0][0] + [TEXT] * 6]])
    batch = Batch(tokens, tokens)
    torch.testing.assert_close(
        both.logits(views, batch, None, "plain"), alone.logits(own, batch, None, "plain"), rtol=1e-9, atol=1e-9
    )


@pytest.mark.parametrize(
    ("position", "task", "key"),
    [
        (Significance(), SetComplement(), "position"),
        (Significance(uniform=1), TASK, "position.uniform"),
        (Significance(uniform=1), PaddedMultiplication(multiplier_digits=3), "position.uniform"),
        (Significance(), PaddedMultiplication(multiplier_digits=3), None),
        (Significance(uniform=3), PaddedMultiplication(multiplier_digits=3), None),
        (Significance(), TASK, None),
    ],
)
def test_tasks_it_cannot_serve_are_refused(position, task, key) -> None:
    assert [problem.key for problem in position.task_problems(task)] == ([key] if key else [])


def test_some_heads_must_be_added(member) -> None:
    from trainers.errors import ConfigError

    with pytest.raises(ConfigError, match=r"position.ordinary.*2 ordinary heads of 2 leave none"):
        Encoder(width=8, heads=2, position={"name": "significance", "ordinary": 2})
    with pytest.raises(ConfigError, match=r"3 does not divide width 8"):
        Encoder(width=8, heads=3)
    assert Encoder(width=8, heads=3, head_width=5).head_width == 5
