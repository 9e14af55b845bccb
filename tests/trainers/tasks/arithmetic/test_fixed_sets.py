"""Fixed training sets: every sample once in an epoch, in an order of its own, and the same wherever it is drawn."""

import numpy as np
import pytest
import scipy.stats
import torch

from tests.trainers.tasks.arithmetic.padded_numbers import Task, stream
from trainers.tasks.arithmetic.padded_addition import PaddedAddition
from trainers.tasks.arithmetic.padded_multiplication import PaddedMultiplication
from trainers.tasks.fixed_set import FixedSet, _scale_word, find_visited_samples


@pytest.mark.parametrize("size", [1, 2, 7, 100, 300])
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
    for position in range(size):
        assert scipy.stats.chisquare(np.bincount(laps[:, position], minlength=size)).pvalue > 1e-4
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
        drawn: list[int] = (
            FixedSet(torch.tensor([seed]), torch.tensor([[index]])).bits(site, (1, 3, 2)).flatten().tolist()
        )
        return drawn

    drawn = words(1, 7, 0)
    assert drawn == words(1, 7, 0) and len(set(drawn)) == 6
    others = [words(2, 7, 0), words(1, 8, 0), words(1, 7, 1), stream(1, step=7).bits(0, (6,))[0].tolist()]
    assert all(not set(drawn) & set(other) for other in others)
