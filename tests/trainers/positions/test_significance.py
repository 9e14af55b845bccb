"""Heads for numbers in text: pairwise vectors by digit significance, beside ordinary heads of a width of their own."""

import doctest
import math

import pytest
import torch
from torch.nn import functional

from tests.trainers.positions.passes import bias_of, pass_of, sizes
from trainers.models.attention import apply_attention
from trainers.models.encoder import Encoder
from trainers.positions.learned import Learned
from trainers.positions.significance import Significance
from trainers.tasks.arithmetic.padded_addition import PaddedAddition
from trainers.tasks.arithmetic.padded_multiplication import PaddedMultiplication
from trainers.tasks.set_complement import SetComplement
from trainers.tensors import numerals
from trainers.tensors.batch import Batch
from trainers.tensors.numerals import PAD, PLUS, TEXT
from trainers.tensors.parameters import ParameterLayout

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


def test_half_of_the_heads_are_ordinary_unless_said() -> None:
    q, weights = queries(1, heads=4), table(Significance())
    torch.testing.assert_close(
        scored(Significance(), q, [SEQUENCES[0][0]], weights),
        scored(Significance(ordinary=2), q, [SEQUENCES[0][0]], weights),
    )


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


def test_heads_of_a_width_of_their_own_attend_one_by_one() -> None:
    heads, width, inner = 3, 5, 6
    generator = torch.Generator().manual_seed(4)
    shapes = {"a.qkv": (width, 18), "a.qkv_bias": (18,), "a.output": (6, width), "a.output_bias": (width,)}
    w = {key: torch.randn(1, *shape, generator=generator, dtype=torch.float64) for key, shape in shapes.items()}
    x = torch.randn(1, 2, 4, width, generator=generator, dtype=torch.float64)
    tokens = torch.zeros(1, 2, 4, dtype=torch.int64)
    got = apply_attention(x, pass_of(tokens, w, False), name="a", layer=0, heads=heads, position=Learned())
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


def test_the_size_of_the_paper() -> None:
    shapes = shapes_of(layers=1, width=768, heads=16, head_width=96, position="significance")
    assert shapes["block0.qkv"] == (768, 3 * 1536) and shapes["block0.output"] == (1536, 768)
    assert shapes["block0.pairs"] == (2 * TASK.positions - 1, 96) and shapes["positions"] == (TASK.positions, 768)


def test_without_the_output_of_its_added_heads_it_is_a_model_with_absolute_positions() -> None:
    both = Encoder(layers=2, width=8, heads=4, head_width=3, position="significance", dropout=0.0)
    alone = Encoder(layers=2, width=8, heads=2, head_width=3, position="learned", dropout=0.0)
    layout = ParameterLayout(both.parameters(TASK))
    views = layout.split(torch.randn(1, layout.size, generator=torch.Generator().manual_seed(2), dtype=torch.float64))
    alone_views = {}
    for name, value in views.items():
        value = value.clone()
        if name.endswith("output"):
            value[:, 6:] = 0.0
        views[name] = alone_views[name] = value
        if name.endswith("output"):
            alone_views[name] = value[:, :6]
        if "qkv" in name:
            parts = value.chunk(3, dim=-1)
            alone_views[name] = torch.cat([part[..., :6] for part in parts], dim=-1)
    tokens = torch.tensor([[SEQUENCES[0][0] + [TEXT] * 6]])
    batch = Batch(tokens, tokens)
    torch.testing.assert_close(
        both.logits(views, batch, None, "plain"), alone.logits(alone_views, batch, None, "plain"), rtol=1e-9, atol=1e-9
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
    assert [problem.key for problem in position.find_task_problems(task)] == ([key] if key else [])


def test_some_heads_must_be_added(member) -> None:
    from trainers.errors import ConfigError

    with pytest.raises(ConfigError, match=r"position.ordinary.*2 ordinary heads of 2 leave no head"):
        Encoder(width=8, heads=2, position={"name": "significance", "ordinary": 2})
    with pytest.raises(ConfigError, match=r"3 does not divide width 8"):
        Encoder(width=8, heads=3)
    assert Encoder(width=8, heads=3, head_width=5).head_width == 5
