"""Digit arithmetic against Python integers; parallel algorithms; cascades, runs and rounds; the chain sampler."""

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from tests.trainers.tasks.arithmetic.integers import to_integers
from trainers.random import Stream
from trainers.tasks.arithmetic import carry_chains
from trainers.tasks.arithmetic.carry_chains import FREE, count_pairs, draw_pairs
from trainers.tasks.arithmetic.digits import (
    PAD,
    add,
    count_digits,
    find_carries,
    measure_carry_run,
    measure_cascade,
    multiply,
    multiply_in_parallel,
    read_digits,
    shift_digits,
    split_integers,
    write_digits,
)

NUMBERS = st.integers(min_value=0, max_value=10**50 - 1) | st.sampled_from([0, 9, 10**50 - 1, 10**49])


def parallel_addition(first_NW: Tensor, second_NW: Tensor) -> tuple[Tensor, Tensor]:
    """Algorithm 1 of the paper, corrected: its rounds are those of a product of the digit pairs' sums and 1."""
    ones_N = torch.ones(len(first_NW), dtype=torch.int64)
    return multiply_in_parallel(ones_N, first_NW + second_NW, first_NW.shape[1] + 1)


def slow_cascade(a: int, b: int, width: int) -> tuple[int, int]:
    """Cascade length and longest run of carries, digit by digit."""
    best = chain = run = longest = 0
    for i in range(width):
        pair = a // 10**i % 10 + b // 10**i % 10
        chain = 1 if pair >= 10 else chain + 1 if pair == 9 and chain else 0
        run = run + 1 if pair >= 10 else 0
        best, longest = max(best, chain), max(longest, run)
    return best, longest


@given(NUMBERS, NUMBERS)
@example(4578, 5425)  # of the paper: a cascade of 4
@example(10**50 - 1, 1)  # a carry through all digits
@settings(max_examples=60)
def test_sums_carries_and_measures_are_those_of_python_integers(a: int, b: int) -> None:
    first, second = split_integers([a], 50), split_integers([b], 50)
    assert to_integers(add(first, second)) == [a + b]
    out = [(a % 10**i + b % 10**i) >= 10**i for i in range(1, 51)]
    assert find_carries(first + second)[0].tolist() == out
    cascade, run = slow_cascade(a, b, 50)
    assert (int(measure_cascade(first + second)), int(measure_carry_run(first + second))) == (cascade, run)
    digits, rounds = parallel_addition(first, second)
    assert to_integers(digits) == [a + b] and int(rounds) == cascade


@given(NUMBERS, NUMBERS)
@settings(max_examples=30)
def test_products_are_those_of_python_integers(a: int, b: int) -> None:
    assert to_integers(multiply(split_integers([a], 50), split_integers([b], 50))) == [a * b]


@given(st.integers(0, 10**17 - 1), NUMBERS)
@settings(max_examples=30)
def test_parallel_multiplication_is_that_of_python_integers(x: int, a: int) -> None:
    digits, _ = multiply_in_parallel(torch.tensor([x]), split_integers([a], 50), 67)
    assert to_integers(digits) == [x * a]


@given(NUMBERS, st.integers(0, 60))
@settings(max_examples=40)
def test_numbers_are_written_as_python_writes_them(a: int, by: int) -> None:
    digits = split_integers([a], 50)
    text = [int(digit) for digit in str(a)]
    tokens = write_digits(digits, count_digits(digits))
    assert tokens[0].tolist() == [PAD] * (50 - len(text)) + text
    assert to_integers(read_digits(tokens)) == [a]
    assert to_integers(shift_digits(digits, torch.tensor([by]))) == [a * 10**by % 10**50]


def test_numbers_that_do_not_fit_are_refused() -> None:
    for value in (-1, 100):
        with pytest.raises(ValueError, match="does not fit into 2 digits"):
            split_integers([value], 2)
    assert split_integers([], 3).shape == (0, 3)


@pytest.mark.parametrize(
    ("x", "number", "rounds"),
    [(9, 9999, 1), (3, 34, 2), (7, 86, 2), (8, 125, 3), (7, 1429, 4), (9, 1112, 4), (7, 14286, 5), (5, 0, 0)],
)
def test_multiplication_rounds(x: int, number: int, rounds: int) -> None:
    digits, measured = multiply_in_parallel(torch.tensor([x]), split_integers([number], 5), 6)
    assert to_integers(digits) == [x * number] and measured.tolist() == [rounds]


def test_rounds_count_each_number_alone() -> None:
    _, rounds = parallel_addition(split_integers([1, 4578, 5], 4), split_integers([1, 5425, 5], 4))
    assert rounds.tolist() == [0, 4, 1]


@pytest.mark.parametrize(
    ("digits", "printed"),
    [
        (5, [0.0503284, 0.775747, 0.160425, 0.0126, 8.55e-4, 4.5e-5]),
        (12, [7.66e-4, 0.587987, 0.366812, 0.0403879, 3.687e-3, 3.28e-4]),
        (50, [1.0e-13, 0.0936413, 0.710155, 0.175244, 0.0188911, 1.866e-3]),
    ],
)
def test_counts_are_the_exact_distribution(digits: int, printed: list[float]) -> None:
    """Against the figures of the specification."""
    total = 100**digits
    assert sum(count_pairs("cascade", c, digits) for c in range(digits + 1)) == total
    assert sum(count_pairs("run", c, digits) for c in range(digits + 1)) == total
    for c, expected in enumerate(printed):
        assert count_pairs("cascade", c, digits) / total == pytest.approx(expected, rel=6e-3)


@pytest.mark.parametrize("chain", ["cascade", "run"])
def test_counts_of_two_digits_by_enumeration(chain: str) -> None:
    counts = [0, 0, 0]
    for a in range(100):
        for b in range(100):
            counts[slow_cascade(a, b, 2)[chain == "run"]] += 1
    assert [count_pairs(chain, c, 2) for c in range(3)] == counts
    assert count_pairs(chain, 3, 2) == 0


def drawn(chain: str, classes: tuple[int, ...], digits: int, rows: int, seed: int = 0) -> tuple[torch.Tensor, ...]:
    which = torch.arange(rows)[None] % len(classes)
    return draw_pairs(Stream(torch.tensor([seed]), "eval", torch.tensor(0)), 3, rows, digits, chain, classes, which)


@pytest.mark.parametrize("digits", [1, 5, 40])
@pytest.mark.parametrize("chain", ["cascade", "run"])
def test_every_drawn_pair_has_the_chain_it_should(chain: str, digits: int) -> None:
    classes = tuple(c for c in (0, 1, 2, 3, 5, 8, 20, 40) if c <= digits)
    first, second = drawn(chain, classes, digits, 100 * len(classes))
    measure = measure_cascade if chain == "cascade" else measure_carry_run
    assert measure(first + second)[0].tolist() == [*classes] * 100
    for a, b in zip(to_integers(first[0]), to_integers(second[0]), strict=True):
        assert slow_cascade(a, b, digits)[chain == "run"] in classes


@pytest.mark.parametrize("c", [0, 1, 2, 3])
def test_conditional_draws_look_like_rejection(c: int) -> None:
    """First digits, second digits and whole pairs of digits at every position, against rejection from numpy."""
    generator = np.random.default_rng(c)
    kept: list[np.ndarray] = []
    while sum(map(len, kept)) < 10_000:
        pairs = generator.integers(0, 10, (100_000, 2, 5))
        lengths = measure_cascade(torch.from_numpy(pairs.sum(axis=1))).numpy()
        kept.append(pairs[lengths == c])
    rejected = np.concatenate(kept)[:10_000]
    first, second = drawn("cascade", (c,), 5, 10_000)
    exact = torch.stack([first[0], second[0]], dim=1).numpy()
    for position in range(5):
        tables = [np.bincount(x[:, 0, position] * 10 + x[:, 1, position], minlength=100) for x in (rejected, exact)]
        used = (tables[0] + tables[1]) > 0
        assert scipy.stats.chi2_contingency(np.stack(tables)[:, used]).pvalue > 1e-4
    kinds = [np.digitize(x.sum(axis=1), [9, 10]) @ 3 ** np.arange(5) for x in (rejected, exact)]
    tables = [np.bincount(k, minlength=3**5) for k in kinds]
    used = (tables[0] + tables[1]) > 10
    assert scipy.stats.chi2_contingency(np.stack(tables)[:, used]).pvalue > 1e-4


def test_free_draws_are_uniform_pairs() -> None:
    first, second = drawn("cascade", (FREE, 0, 3), 5, 60_000)
    free = (first * 10 + second)[0, ::3]
    for position in range(5):
        assert scipy.stats.chisquare(np.bincount(free[:, position], minlength=100)).pvalue > 1e-4
    lengths = measure_cascade(first[0, ::3] + second[0, ::3]).numpy()
    expected = np.array([count_pairs("cascade", c, 5) / 100**5 for c in range(6)]) * len(lengths)
    counts = np.bincount(lengths, minlength=6)
    counts, expected = np.append(counts[:3], counts[3:].sum()), np.append(expected[:3], expected[3:].sum())
    assert scipy.stats.chisquare(counts, expected).pvalue > 1e-4


def test_pairs_without_carries_are_uniform_over_the_55() -> None:
    stream = Stream(torch.tensor([4]), "eval", torch.tensor(0))
    first, second = carry_chains.draw_pairs_without_carries(stream, 0, 20_000, 3)
    cells = np.bincount((first * 10 + second).flatten(), minlength=100)
    allowed = np.add.outer(np.arange(10), np.arange(10)).flatten() <= 9
    assert allowed.sum() == 55 and not cells[~allowed].any()
    assert scipy.stats.chisquare(cells[allowed]).pvalue > 1e-4
