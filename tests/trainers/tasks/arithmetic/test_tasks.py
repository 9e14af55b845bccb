"""Padded addition and multiplication: layouts, masks, augmentation, text, fixed sets, distributions, scores."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch

from tests.trainers.own_tasks import mean_loss, scores_of
from tests.trainers.tasks.arithmetic.integers import to_integers
from trainers.random import Stream
from trainers.tasks.arithmetic import carry_chains
from trainers.tasks.arithmetic.digits import measure_cascade
from trainers.tasks.arithmetic.padded_addition import PaddedAddition
from trainers.tasks.arithmetic.padded_multiplication import PaddedMultiplication
from trainers.tasks.fixed_set import FixedSet, _scale_word, find_visited_samples
from trainers.tasks.supervised import IGNORED
from trainers.tensors.numerals import FIRST, NO_ROLE, OPERATOR, PAD, PLUS, SECOND, TEXT, TIMES

Task = PaddedAddition | PaddedMultiplication


def stream(*seeds: int, step: int = 1, name: str = "data") -> Stream:
    return Stream(torch.tensor(seeds or (0,)), name, torch.tensor(step))


def value(tokens: list[int]) -> int:
    """The integer that pads and digits spell; pads stand on the left only, and no number starts with 0."""
    digits = [token for token in tokens if token != PAD]
    assert digits and tokens == [PAD] * (len(tokens) - len(digits)) + digits
    assert len(digits) == 1 or digits[0] > 0
    return int("".join(map(str, digits)))


def parsed(task: Task, tokens: list[int], targets: list[int]) -> tuple[int, int, int]:
    """Both numbers and the answer of one sequence, read without the task's own reader."""
    numbers = [token for token in tokens if token <= PAD]
    sign = PLUS if isinstance(task, PaddedAddition) else TIMES
    width, _ = task.blocks
    assert tokens.count(sign) == 1 and len(numbers) == sum(task.blocks)
    scored = [target for target in targets if target != IGNORED]
    return value(numbers[:width]), value(numbers[width:]), value(scored)


def rows(task: Task, batch: Any) -> list[tuple[int, int, int]]:
    return [
        parsed(task, tokens, targets)
        for tokens, targets in zip(
            batch.tokens.flatten(0, 1).tolist(), batch.targets.flatten(0, 1).tolist(), strict=True
        )
    ]


def evaluated(task: Task, samples: int = 50, lengths: tuple[int, ...] | None = None) -> dict[int, Any]:
    chosen = task.lengths if lengths is None else lengths
    tests = task.evaluation_batches(stream(name="eval", step=0), samples, chosen)
    return {test.lengths[0]: test.batch for test in tests}


def perfect(batch: Any, outputs: int = 11) -> torch.Tensor:
    """Logits (M, B, T, V) that are right everywhere."""
    return 9.0 * torch.nn.functional.one_hot(batch.targets.clamp(min=0), outputs).float()


ADDITIONS = [
    PaddedAddition(width=6, train_digits=3),
    PaddedAddition(width=50, train_digits=50),
    PaddedAddition(width=6, train_digits=6, distribution="complexity"),
    PaddedAddition(width=7, train_digits=3, zero_shift=True, distribution="mixed"),
    PaddedAddition(width=6, train_digits=3, text_tokens=4, text_ids=5, zero_shift=True),
    PaddedAddition(width=6, train_digits=3, text_tokens=1, fixed_set=10),
    PaddedAddition(width=6, train_digits=6, carries="sum_le_9"),
]
PRODUCTS = [
    PaddedMultiplication(number_digits=6, train_digits=3),
    PaddedMultiplication(multiplier_digits=3, number_digits=50, train_digits=50),
    PaddedMultiplication(multiplier_digits=2, number_digits=6, train_digits=3, zero_shift=True, right_block_width=9),
    PaddedMultiplication(multiplier_digits=3, number_digits=5, train_digits=5, text_tokens=6, fixed_set=30),
    PaddedMultiplication(multiplier_digits=1, number_digits=5, train_digits=2, multiplier_range=(0, 4)),
]


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
    pairs = rows(task, task.sample(stream(), 20_000))
    for column in (0, 1):
        counts = np.bincount([pair[column] for pair in pairs], minlength=100)
        assert scipy.stats.chisquare(counts).pvalue > 1e-4
    product = PaddedMultiplication(number_digits=3, train_digits=2, multiplier_range=(3, 8))
    pairs = rows(product, product.sample(stream(), 20_000))
    assert scipy.stats.chisquare(np.bincount([a for a, _, _ in pairs], minlength=9)[3:]).pvalue > 1e-4
    assert scipy.stats.chisquare(np.bincount([b for _, b, _ in pairs], minlength=100)).pvalue > 1e-4


@pytest.mark.parametrize("carries", ["full", "sum_le_9"])
def test_lengths_of_training_numbers_may_be_uniform(carries: str) -> None:
    """Of numbers below 10^k with k from 1 to 3, each number's k its own; what is evaluated stays as it was."""
    task = PaddedAddition(width=4, train_digits=3, carries=carries, uniform_lengths=True)
    pairs = rows(task, task.sample(stream(), 20_000))
    digits = 1 + (np.array([pair[:2] for pair in pairs])[..., None] >= [10, 100]).sum(axis=-1)
    zero = 10 / 55 if carries == "sum_le_9" else 0.1  # of a leading digit
    three = (1 - zero) / 3
    two = (1 - zero) * (1 + zero) / 3
    for column in (0, 1):
        counts = np.bincount(digits[:, column], minlength=4)[1:]
        assert scipy.stats.chisquare(counts, 20_000 * np.array([1 - two - three, two, three])).pvalue > 1e-4
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
        found = cascade_histogram(PaddedAddition(width=6, distribution=name), 20_000)
        assert found.sum() == 20_000
        merged = [found[:4], found[4:].sum()] if name == "uniform" else [found]
        expected = [shares[:4], shares[4:].sum()] if name == "uniform" else [shares]
        result = scipy.stats.chisquare(np.hstack(merged), 20_000 * np.hstack(expected))
        assert result.pvalue > 1e-4, name
    limited = cascade_histogram(PaddedAddition(width=6, distribution="complexity", longest_cascade=2), 3_000)
    assert scipy.stats.chisquare(limited[:3]).pvalue > 1e-4 and limited[3:].sum() == 0


def test_fifty_digit_cascades_follow_the_exact_distribution() -> None:
    task = PaddedAddition(width=50, train_digits=5)
    batch = evaluated(task, 20_000, (50,))[50]
    found = np.bincount(task.measure_difficulty(batch.tokens)["cascade"][0].numpy(), minlength=51)
    expected = np.array([carry_chains.count_pairs("cascade", c, 50) / 100**50 for c in range(51)]) * 20_000
    found, expected = (np.hstack([x[:2].sum(), x[2:5], x[5:].sum()]) for x in (found, expected))
    assert scipy.stats.chisquare(found, expected).pvalue > 1e-4


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
    found = np.bincount(task.measure_difficulty(batch.tokens)["rounds"][0].numpy(), minlength=8)
    used = exact > 0
    assert found[~used].sum() == 0
    assert scipy.stats.chisquare(found[used], exact[used] / exact.sum() * 20_000).pvalue > 1e-4
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
    for tokens, targets in zip(batch.tokens[0].tolist(), batch.targets[0].tolist(), strict=True):
        end = TEXT + task.text_ids
        body = tokens[: tokens.index(end)] if end in tokens else tokens
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


@pytest.mark.parametrize("size", [1, 2, 7, 100, 1000])
def test_every_epoch_visits_each_sample_once_in_an_order_of_its_own(size: int) -> None:
    batch, epochs = 13, 3
    steps = -(-epochs * size // batch)
    order = torch.cat(
        [find_visited_samples(stream(3, 2**40 + 1, step=1 + i), batch, size) for i in range(steps)], dim=1
    )
    for seed in range(2):
        laps = [order[seed, i * size : (i + 1) * size].tolist() for i in range(epochs)]
        assert all(sorted(lap) == list(range(size)) for lap in laps)
        if size >= 100:
            assert laps[0] != laps[1] != laps[2] and laps[0] != sorted(laps[0])
    if size >= 100:
        assert order[0].tolist() != order[1].tolist()


@pytest.mark.slow
def test_the_order_of_an_epoch_is_a_fair_shuffle() -> None:
    """Where the first sample goes, and who follows whom, over many epochs of a small set."""
    size, epochs = 8, 6000
    order = torch.cat(
        [find_visited_samples(stream(9, step=1 + i), 80, size) for i in range(epochs * size // 80)], dim=1
    )
    laps = order[0].reshape(epochs, size)
    for place in range(size):
        assert scipy.stats.chisquare(np.bincount(laps[:, place], minlength=size)).pvalue > 1e-4
    follows = np.bincount((laps[:, :-1] * size + laps[:, 1:]).flatten().numpy(), minlength=size**2).reshape(size, size)
    assert not follows.diagonal().any()
    assert scipy.stats.chisquare(follows[~np.eye(size, dtype=bool)]).pvalue > 1e-4


@pytest.mark.parametrize("size", [2**31 - 1, 2**31 + 1, 3 * 2**30 + 7, 2**32 - 1])
def test_an_order_of_very_many_samples_stays_among_them(size: int) -> None:
    """Products of a 32-bit word and such a size do not fit in 64 bits with a sign."""
    order = torch.cat([find_visited_samples(stream(3, step=step), 512, size) for step in (1, 2, 2**20)], dim=1)
    assert 0 <= int(order.min()) and int(order.max()) < size
    assert len(order.unique()) == order.numel(), "no sample comes twice in an epoch"
    words = torch.tensor([0, 1, 2**16, 2**31, 2**32 - 1])
    assert _scale_word(words, size).tolist() == [word * size >> 32 for word in words.tolist()]


@pytest.mark.parametrize("name", ["addition", "product"])
def test_a_sample_of_a_fixed_set_depends_on_its_seed_and_index_only(name: str) -> None:
    task: Task = (
        PaddedAddition(width=12, train_digits=11, text_tokens=3, fixed_set=50, distribution="mixed")
        if name == "addition"
        else PaddedMultiplication(multiplier_digits=3, number_digits=12, train_digits=11, text_tokens=3, fixed_set=50)
    )
    known: dict[tuple[int, int], list[int]] = {}
    for seeds, batch, step in [((1, 2), 7, 3), ((2,), 116, 1), ((2, 1), 20, 9), ((1,), 120, 2)]:
        source = stream(*seeds, step=step)
        index = find_visited_samples(source, batch, 50)
        drawn = task.sample(source, batch)
        for s, seed in enumerate(seeds):
            for b in range(batch):
                sample = drawn.tokens[s, b].tolist() + drawn.targets[s, b].tolist()
                assert known.setdefault((seed, int(index[s, b])), sample) == sample
    assert len(known) == 100 and len({tuple(sample) for sample in known.values()}) == 100


def test_words_of_a_fixed_set_differ_by_seed_index_and_site_and_from_streams() -> None:
    def words(seed: int, index: int, site: int) -> list[int]:
        found: list[int] = (
            FixedSet(torch.tensor([seed]), torch.tensor([[index]])).bits(site, (1, 3, 2)).flatten().tolist()
        )
        return found

    one = words(1, 7, 0)
    assert one == words(1, 7, 0) and len(set(one)) == 6
    others = [words(2, 7, 0), words(1, 8, 0), words(1, 7, 1), stream(1, step=7).bits(0, (6,))[0].tolist()]
    assert all(not set(one) & set(other) for other in others)


@pytest.mark.parametrize(
    "task",
    [
        PaddedAddition(
            width=6,
            train_digits=2,
            zero_shift=True,
            measured_digits=7,
            measured_cascades=(0, 1, 4, 6),
            measured_runs=(0, 2, 5),
            measured_samples=30,
        ),
        PaddedAddition(width=6, train_digits=2, text_tokens=3, measured_digits=6, measured_cascades=(0, 3)),
        PaddedMultiplication(
            number_digits=5, train_digits=2, zero_shift=True, measured_digits=6, measured_rounds=(1, 2, 9)
        ),
    ],
    ids=["addition", "text", "product"],
)
def test_right_answers_score_one_and_impossible_groups_are_nan(task: Task) -> None:
    for length, batch in evaluated(task, 60).items():
        assert float(mean_loss(task, perfect(batch), batch)) < 0.01
        scores = scores_of(task, perfect(batch), batch, (length,))
        assert list(scores) == list(task.metrics)
        for name, score in scores.items():
            assert score.shape == (1, 1)
            kind, _, number = name.rpartition("_")
            impossible = (kind.endswith(("cascade", "run")) and int(number) > length) or (
                name.endswith("shifted") and length < task.train_digits
            )
            if kind.endswith("rounds"):
                rounds = task.measure_difficulty(batch.tokens[:, :60])["rounds"]
                impossible = not bool((rounds == int(number)).any())
            assert math.isnan(float(score)) if impossible else float(score) == 1.0, name


def test_groups_have_the_chain_in_their_name_and_are_scored_apart() -> None:
    task = PaddedAddition(width=5, train_digits=2, measured_cascades=(2, 0), measured_runs=(3,), measured_samples=40)
    batch = evaluated(task, 60, (4,))[4]
    assert batch.parts == (
        ("exact_match", 60),
        ("exact_match_cascade_2", 40),
        ("exact_match_cascade_0", 40),
        ("exact_match_run_3", 40),
    )
    measures = task.measure_difficulty(batch.tokens)
    assert (measures["cascade"][0, 60:100] == 2).all() and (measures["cascade"][0, 100:140] == 0).all()
    assert (measures["run"][0, 140:] == 3).all()
    logits = perfect(batch)
    logits[:, 60:70, -1] = -logits[:, 60:70, -1]
    scores = scores_of(task, logits, batch, (4,))
    assert float(scores["exact_match_cascade_2"]) == 0.75
    assert all(float(score) == 1.0 for name, score in scores.items() if name != "exact_match_cascade_2")


def test_one_wrong_digit_costs_its_position_and_the_match() -> None:
    task = PaddedAddition(width=4, train_digits=2, measured_digits=5)
    batch = evaluated(task, 50, (3,))[3]
    logits = perfect(batch)
    wrong = (batch.targets[:, :20, -3] + 1) % 11  # the third digit, units first
    logits[:, :20, -3] = 9.0 * torch.nn.functional.one_hot(wrong, 11)
    logits[:, :10, 2] = 50.0 * torch.nn.functional.one_hot(torch.tensor(3), 11)  # ignored: changes nothing
    scores = {name: float(score) for name, score in scores_of(task, logits, batch, (3,)).items()}
    assert scores == pytest.approx(
        {"exact_match": 0.6, "digit_accuracy": 1 - 0.4 / 5, "accuracy_digit_3": 0.6}
        | {f"accuracy_digit_{k}": 1.0 for k in (1, 2, 4, 5)}
    )


def test_groups_follow_members_that_share_a_seed() -> None:
    task = PaddedAddition(width=4, train_digits=2, measured_cascades=(1,), measured_samples=10)
    batch = next(iter(task.evaluation_batches(stream(1, 2, name="eval", step=0), 20, (3,)))).batch
    members = batch.for_members(torch.tensor([1, 0, 1]))
    assert torch.equal(members.tokens, batch.tokens[[1, 0, 1]]) and members.parts == batch.parts
    assert scores_of(task, perfect(members), members, (3,))["exact_match_cascade_1"].shape == (3, 1)


def test_a_length_is_measured_on_the_same_inputs_whatever_else_is_measured() -> None:
    task = PaddedAddition(width=6, train_digits=2, measured_cascades=(1, 3), zero_shift=True)
    every, alone = evaluated(task, 20), evaluated(task, 20, (5,))
    assert torch.equal(every[5].tokens, alone[5].tokens)
    product = PaddedMultiplication(number_digits=6, train_digits=2, zero_shift=True)
    products = evaluated(product, 20)
    assert torch.equal(products[5].tokens, evaluated(product, 20, (5,))[5].tokens)
    assert not torch.equal(products[5].tokens[..., 0], products[4].tokens[..., 0]), "multipliers of their own"
    text = evaluated(PaddedAddition(width=6, train_digits=2, text_tokens=9), 20)
    assert not torch.equal(text[5].tokens == PLUS, text[4].tokens == PLUS), "gaps of their own"


def test_rounds_are_scored_apart() -> None:
    task = PaddedMultiplication(number_digits=4, train_digits=2, measured_rounds=(1, 2, 3))
    batch = evaluated(task, 300, (4,))[4]
    two = task.measure_difficulty(batch.tokens)["rounds"] == 2
    assert 0 < int(two.sum()) < 300
    logits = torch.where(two[..., None, None], -perfect(batch), perfect(batch))
    scores = {name: float(score) for name, score in scores_of(task, logits, batch, (4,)).items()}
    assert [scores[f"exact_match_rounds_{r}"] for r in (1, 2, 3)] == [1.0, 0.0, 1.0]
    assert scores["exact_match"] == pytest.approx(1 - float(two.float().mean()))


def test_metrics_of_digits_and_groups_are_numbered_and_not_charted() -> None:
    task = PaddedAddition(measured_digits=2, measured_cascades=(4, 0), measured_runs=(1,), zero_shift=True)
    digits, groups = ["accuracy_digit_1", "accuracy_digit_2"], ["cascade_4", "cascade_0", "run_1"]
    expected = ["exact_match", "digit_accuracy", *digits, *(f"exact_match_{name}" for name in groups)]
    assert list(task.metrics) == [*expected, "exact_match_shifted"]
    assert list(PaddedMultiplication(measured_rounds=(0, 3)).metrics)[-2:] == [
        "exact_match_rounds_0", "exact_match_rounds_3",
    ]  # fmt: skip
    assert task.headline == ("exact_match", "exact_match_shifted", "digit_accuracy")


def test_sequences_can_be_read() -> None:
    for task in (ADDITIONS[4], PRODUCTS[3]):
        batch = task.sample(stream(1, 2), 20)
        for row in range(20):
            tokens, targets = task.format_row(batch, row)
            numbers = [word for word in tokens if word not in "t"]
            sign = "+" if isinstance(task, PaddedAddition) else "x"
            first, second = "".join(numbers).replace("P", "").split(sign)
            answer = "".join(targets).strip("_").replace("P", "")
            assert parsed(task, batch.tokens[0, row].tolist(), batch.targets[0, row].tolist()) == (
                int(first), int(second), int(answer)
            )  # fmt: skip
