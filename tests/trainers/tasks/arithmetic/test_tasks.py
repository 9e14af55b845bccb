"""Padded addition and multiplication: layouts, masks, augmentation, text, and the distributions of training numbers."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.stats
import torch

from tests.trainers.tasks.arithmetic.integers import to_integers
from tests.trainers.tasks.arithmetic.padded_numbers import (
    ADDITIONS,
    PRODUCTS,
    Task,
    evaluated,
    parsed,
    rows,
    stream,
)
from trainers.tasks.arithmetic import carry_chains
from trainers.tasks.arithmetic.digits import measure_cascade
from trainers.tasks.arithmetic.padded_addition import PaddedAddition
from trainers.tasks.arithmetic.padded_multiplication import PaddedMultiplication
from trainers.tasks.supervised import IGNORED
from trainers.tensors.numerals import FIRST, NO_ROLE, OPERATOR, PAD, SECOND, TEXT


@pytest.mark.parametrize("task", ADDITIONS + PRODUCTS, ids=lambda task: str(list(task.to_dict().values())))
def test_the_target_is_the_python_integer_in_training_and_at_every_length(task: Task) -> None:
    lengths = task.lengths[:3] + task.lengths[-2:]
    for length, batch in [(0, task.sample(stream(1, 2), 40)), *evaluated(task, 40, tuple(sorted({*lengths}))).items()]:
        assert batch.tokens.shape == batch.targets.shape and batch.tokens.shape[-1] == task.train_positions
        for first, second, answer in rows(task, batch):
            if isinstance(task, PaddedAddition):
                assert first + second == answer
                assert max(first, second) < 10 ** (
                    length or (task.max_digits if task.zero_shift else task.train_digits)
                )
            else:
                low, high = task.multiplier_bounds
                assert first * second == answer and low <= first <= high
                assert second < 10 ** (length or (task.number_digits if task.zero_shift else task.train_digits))
        if not task.text_tokens:
            right = task.width + 1 if isinstance(task, PaddedAddition) else task.block
            assert ((batch.targets != IGNORED).sum(dim=-1) == right).all()
            assert (batch.targets[..., -right:] != IGNORED).all()


@pytest.mark.parametrize(
    ("task", "numbers", "tokens", "targets"),
    [
        (PaddedAddition(width=3, train_digits=2), (0, 0), "P P 0 + P P 0", "_ _ _ P P P 0"),
        (PaddedAddition(width=3, train_digits=2), (999, 1), "9 9 9 + P P 1", "_ _ _ 1 0 0 0"),
        (PaddedAddition(width=3, train_digits=2), (123, 876), "1 2 3 + 8 7 6", "_ _ _ P 9 9 9"),
        (PaddedAddition(width=3, train_digits=2, carries="mod10"), (75, 45), "P 7 5 + P 4 5", "_ _ _ P P 1 0"),
        (PaddedAddition(width=3, train_digits=2, carries="mod10"), (5, 995), "P P 5 + 9 9 5", "_ _ _ P 9 9 0"),
        (PaddedAddition(width=3, train_digits=2, carries="mod10"), (55, 55), "P 5 5 + P 5 5", "_ _ _ P P 0 0"),
        (PaddedMultiplication(number_digits=2, train_digits=1), (9, 0), "9 x P P 0", "_ _ P P 0"),
        (PaddedMultiplication(number_digits=2, train_digits=1), (9, 99), "9 x P 9 9", "_ _ 8 9 1"),
        (  # the paper's own examples
            PaddedAddition(width=20),
            (123, 4095),
            f"{17 * 'P '}1 2 3 +{16 * ' P'} 4 0 9 5",
            f"{20 * '_ '}{17 * 'P '}4 2 1 8",
        ),
        (
            PaddedMultiplication(multiplier_digits=2, right_block_width=22),
            (56, 4297),
            f"5 6 x{18 * ' P'} 4 2 9 7",
            f"_ _ _{16 * ' P'} 2 4 0 6 3 2",
        ),
    ],
)
def test_layouts_token_by_token(task: Task, numbers: tuple[int, int], tokens: str, targets: str) -> None:
    assert task.example(*numbers) == (tokens, targets)


def test_mod_ten_targets_are_digits_of_their_own_pair() -> None:
    task = PaddedAddition(width=5, train_digits=4, carries="mod10")
    for batch in (task.sample(stream(), 200), *evaluated(task, 50).values()):
        for tokens, targets in zip(batch.tokens[0].tolist(), batch.targets[0].tolist(), strict=True):
            assert targets[5] == PAD
            for a, b, out in zip(tokens[:5], tokens[6:], targets[6:], strict=True):
                assert out == (PAD if a == b == PAD else (a % PAD + b % PAD) % 10)


def test_numbers_are_uniform_below_the_power_of_ten() -> None:
    task = PaddedAddition(width=4, train_digits=2)
    pairs = rows(task, task.sample(stream(), 8_000))
    for column in (0, 1):
        counts = np.bincount([pair[column] for pair in pairs], minlength=100)
        assert scipy.stats.chisquare(counts).pvalue > 1e-4
    product = PaddedMultiplication(number_digits=3, train_digits=2, multiplier_range=(3, 8))
    pairs = rows(product, product.sample(stream(), 8_000))
    assert scipy.stats.chisquare(np.bincount([a for a, _, _ in pairs], minlength=9)[3:]).pvalue > 1e-4
    assert scipy.stats.chisquare(np.bincount([b for _, b, _ in pairs], minlength=100)).pvalue > 1e-4


@pytest.mark.parametrize("carries", ["full", "sum_le_9"])
def test_lengths_of_training_numbers_may_be_uniform(carries: str) -> None:
    """Of numbers below 10^k with k from 1 to 3, each number's k its own; what is evaluated stays as it was."""
    task = PaddedAddition(width=4, train_digits=3, carries=carries, uniform_lengths=True)
    pairs = rows(task, task.sample(stream(), 8_000))
    digits = 1 + (np.array([pair[:2] for pair in pairs])[..., None] >= [10, 100]).sum(axis=-1)
    zero = 10 / 55 if carries == "sum_le_9" else 0.1  # of a leading digit
    three = (1 - zero) / 3
    two = (1 - zero) * (1 + zero) / 3
    for column in (0, 1):
        counts = np.bincount(digits[:, column], minlength=4)[1:]
        assert scipy.stats.chisquare(counts, 8_000 * np.array([1 - two - three, two, three])).pvalue > 1e-4
    assert all(a + b == answer for a, b, answer in pairs)
    if carries == "full":  # else both numbers have their zeros from the same pairs
        assert scipy.stats.chi2_contingency(scipy.stats.contingency.crosstab(*digits.T).count).pvalue > 1e-4
    plain = PaddedAddition(width=4, train_digits=3, carries=carries)
    assert torch.equal(evaluated(task, lengths=(3,))[3].tokens, evaluated(plain, lengths=(3,))[3].tokens)


def test_uniform_lengths_leave_sums_that_were_drawn_by_their_cascade() -> None:
    """Half of the rows of `mixed`, in which both numbers keep all of their digits."""
    task = PaddedAddition(width=6, train_digits=5, distribution="mixed", uniform_lengths=True)
    batch = task.sample(stream(), 20_000)
    cascades = task.measure_difficulty(batch.tokens)["cascade"].flatten().numpy()
    plain = PaddedAddition(width=6, train_digits=5, distribution="mixed").sample(stream(), 20_000)
    same = (plain.tokens == batch.tokens).all(dim=-1).flatten().float().mean().item()
    assert same == pytest.approx(0.5 + 0.5 / 25, abs=0.02)  # and uniform pairs that kept all of their digits
    assert (cascades == 5).mean() == pytest.approx(1 / 12, abs=0.01)


def cascade_histogram(task: PaddedAddition, samples: int) -> np.ndarray:
    lengths = task.measure_difficulty(task.sample(stream(5), samples).tokens)["cascade"]
    return np.bincount(lengths[0].numpy(), minlength=task.train_digits + 1)


def test_training_distributions_over_cascades() -> None:
    """Uniform: exact probabilities by enumeration of pair kinds. Complexity: equal shares. Mixed: their mean."""
    exact = np.zeros(6)
    for kinds in np.ndindex(3, 3, 3, 3, 3):  # 0 less, 1 nine, 2 carry; units first
        sums = torch.tensor([(8, 9, 10)[kind] for kind in kinds])
        exact[int(measure_cascade(sums))] += math.prod((0.45, 0.10, 0.45)[kind] for kind in kinds)
    assert exact[4] == pytest.approx(8.55e-4, rel=1e-3)
    flat = np.full(6, 1 / 6)
    for name, shares in {"uniform": exact, "complexity": flat, "mixed": (exact + flat) / 2}.items():
        counts = cascade_histogram(PaddedAddition(width=6, distribution=name), 20_000)
        assert counts.sum() == 20_000
        merged = [counts[:4], counts[4:].sum()] if name == "uniform" else [counts]
        expected = [shares[:4], shares[4:].sum()] if name == "uniform" else [shares]
        result = scipy.stats.chisquare(np.hstack(merged), 20_000 * np.hstack(expected))
        assert result.pvalue > 1e-4, name
    limited = cascade_histogram(PaddedAddition(width=6, distribution="complexity", longest_cascade=2), 3_000)
    assert scipy.stats.chisquare(limited[:3]).pvalue > 1e-4 and limited[3:].sum() == 0


def test_fifty_digit_cascades_follow_the_exact_distribution() -> None:
    task = PaddedAddition(width=50, train_digits=5)
    batch = evaluated(task, 20_000, (50,))[50]
    counts = np.bincount(task.measure_difficulty(batch.tokens)["cascade"][0].numpy(), minlength=51)
    expected = np.array([carry_chains.count_pairs("cascade", c, 50) / 100**50 for c in range(51)]) * 20_000
    counts, expected = (np.hstack([x[:2].sum(), x[2:5], x[5:].sum()]) for x in (counts, expected))
    assert scipy.stats.chisquare(counts, expected).pvalue > 1e-4


def test_rounds_of_single_digit_products_follow_high_precision_counts() -> None:
    """Every product of two digits numbers by a slow parallel reduction; and 0.998 within 4 rounds at 20 digits."""
    task = PaddedMultiplication(number_digits=3, train_digits=3)
    exact = np.zeros(8)
    for x in range(1, 10):
        for number in range(1000):
            columns, rounds = [x * (number // 10**i % 10) for i in range(4)], 0
            while max(columns) >= 10:
                columns = [columns[j] % 10 + (columns[j - 1] // 10 if j else 0) for j in range(4)]
                rounds += 1
            exact[rounds] += 1
    batch = task.sample(stream(), 20_000)
    counts = np.bincount(task.measure_difficulty(batch.tokens)["rounds"][0].numpy(), minlength=8)
    used = exact > 0
    assert counts[~used].sum() == 0
    assert scipy.stats.chisquare(counts[used], exact[used] / exact.sum() * 20_000).pvalue > 1e-4
    long = PaddedMultiplication(number_digits=20, train_digits=20)
    rounds = long.measure_difficulty(long.sample(stream(), 20_000).tokens)["rounds"]
    assert float((rounds <= 4).float().mean()) == pytest.approx(0.998, abs=0.0015)


@pytest.mark.parametrize(
    ("plain", "most"),
    [
        (PaddedAddition(width=9, train_digits=3), 6),
        (PaddedAddition(width=9, train_digits=3, text_tokens=3), 5),
        (PaddedMultiplication(number_digits=6, train_digits=2), 4),
    ],
)
def test_zero_shift_appends_equally_many_zeros_and_uses_all_shifts(plain: Task, most: int) -> None:
    task, seen = replace(plain, zero_shift=True), set[int]()
    pairs = zip(rows(task, task.sample(stream(), 500)), rows(plain, plain.sample(stream(), 500)), strict=True)
    for (a, b, _), (a0, b0, _) in pairs:
        both = isinstance(task, PaddedAddition)  # a multiplier stays as it is
        shifts = {s for s in range(10) if (a, b) == (a0 * 10 ** (s * both), b0 * 10**s)}
        assert shifts, "the same sample, shifted"
        seen |= shifts if len(shifts) == 1 else set()
    assert seen == set(range(most + 1))


def test_shifted_evaluation_is_training_data_at_that_length() -> None:
    task = PaddedAddition(width=8, train_digits=3, zero_shift=True)
    for length, batch in evaluated(task, 30).items():
        groups = dict(batch.parts)
        assert ("exact_match_shifted" in groups) == (length >= 3)
        if length >= 3:
            shifted_rows = rows(task, batch)[30:]
            assert all(a % 10 ** (length - 3) == b % 10 ** (length - 3) == 0 for a, b, _ in shifted_rows)
            assert max(a for a, _, _ in shifted_rows) >= 10 ** (length - 2)


@pytest.mark.parametrize("task", [ADDITIONS[4], PaddedMultiplication(multiplier_digits=2, text_tokens=5, text_ids=7)])
def test_text_stands_where_it_should_and_varies(task: Task) -> None:
    batch = task.sample(stream(3), 400)
    gaps, ids = set(), set()
    for row, (tokens, targets) in enumerate(zip(batch.tokens[0].tolist(), batch.targets[0].tolist(), strict=True)):
        end = TEXT + task.text_ids
        body = tokens[: tokens.index(end)] if end in tokens else tokens
        symbols = "".join(task.format_row(batch, row)[0])
        assert symbols[len(body) :] == "e" * (len(tokens) - len(body)) and "e" not in symbols[: len(body)]
        assert set(tokens[len(body) :]) <= {end}
        kinds = ["t" if token >= TEXT else "n" if token <= PAD else "o" for token in body]
        text = "".join(kinds)
        first = text.index("n")
        operator = text.index("o")
        w1, w2 = task.blocks
        middle, after = operator - first - w1, len(text) - operator - 1 - w2
        assert text == "t" * first + "n" * w1 + "t" * middle + "o" + "n" * w2 + "t" * after
        gaps |= {(0, first), (1, middle), (2, after)}
        ids |= {token for token in body if token >= TEXT}
        assert [i for i, target in enumerate(targets) if target != IGNORED] == [*range(operator + 1, operator + 1 + w2)]
    assert gaps == {(gap, n) for gap in range(3) for n in range(task.text_tokens + 1)}
    assert ids == set(range(TEXT, TEXT + task.text_ids)) and task.inputs == TEXT + task.text_ids + 1


@pytest.mark.parametrize("task", ADDITIONS + PRODUCTS, ids=lambda task: str(list(task.to_dict().values())))
def test_places_follow_from_the_tokens(task: Task) -> None:
    batch = task.sample(stream(3, 4), 30)
    places = task.places(batch.tokens)
    w1, w2 = task.blocks
    for tokens, roles, digits in zip(
        batch.tokens.flatten(0, 1).tolist(),
        places.role.flatten(0, 1).tolist(),
        places.significance.flatten(0, 1).tolist(),
        strict=True,
    ):
        assert [d for r, d in zip(roles, digits, strict=True) if r == FIRST] == [*range(w1, 0, -1)]
        assert [d for r, d in zip(roles, digits, strict=True) if r == SECOND] == [*range(w2, 0, -1)]
        assert [t for t, r in zip(tokens, roles, strict=True) if r == OPERATOR] == [task.operator]
        assert all(
            (r == NO_ROLE) == (t >= TEXT) and (d > 0) == (t <= PAD)
            for t, r, d in zip(tokens, roles, digits, strict=True)
        )
    first, second = task.read_numbers(batch.tokens)
    read = [*zip(to_integers(first.flatten(0, 1)), to_integers(second.flatten(0, 1)), strict=True)]
    assert read == [(a, b) for a, b, _ in rows(task, batch)]


def test_sequences_can_be_read() -> None:
    for task in (ADDITIONS[4], PRODUCTS[3]):
        batch = task.sample(stream(1, 2), 20)
        for row in range(20):
            tokens, targets = task.format_row(batch, row)
            numbers = [word for word in tokens if word not in "te"]
            sign = "+" if isinstance(task, PaddedAddition) else "x"
            first, second = "".join(numbers).replace("P", "").split(sign)
            answer = "".join(targets).strip("_e").replace("P", "")
            assert parsed(task, batch.tokens[0, row].tolist(), batch.targets[0, row].tolist()) == (
                int(first), int(second), int(answer)
            )  # fmt: skip
