"""Philox4x32-10 against published vectors and a slow reference; streams against chi-square and correlation."""

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainers.positions.context import CHUNK_SITES, HIDDEN_SITE
from trainers.random import STREAMS, Stream, philox4x32
from trainers.tensors.noise import Noise
from trainers.training.compiling import compile_program

# Known-answer vectors of the Random123 distribution (kat_vectors, philox 4x32 10).
VECTORS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def reference_philox(counter: tuple[int, ...], key: tuple[int, ...]) -> tuple[int, ...]:
    """The published algorithm in Python integers."""
    c, k = list(counter), list(key)
    for turn in range(10):
        if turn:
            k = [(k[0] + 0x9E3779B9) % 2**32, (k[1] + 0xBB67AE85) % 2**32]
        p0, p1 = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(p1 >> 32) ^ c[1] ^ k[0], p1 % 2**32, (p0 >> 32) ^ c[3] ^ k[1], p0 % 2**32]
    return tuple(c)


def stream(seeds: list[int], name: str = "data", step: int = 1) -> Stream:
    return Stream(torch.tensor(seeds), name, torch.tensor(step))


def words(values: tuple[int, ...]) -> tuple[torch.Tensor, ...]:
    return tuple(torch.tensor([value]) for value in values)


@pytest.mark.parametrize(("counter", "key", "expected"), VECTORS)
def test_published_known_answer_vectors(counter, key, expected) -> None:
    assert tuple(int(word) for word in philox4x32(words(counter), words(key))) == expected


word = st.integers(0, 2**32 - 1)


@settings(max_examples=100)
@given(st.tuples(word, word, word, word), st.tuples(word, word))
def test_equals_the_algorithm_in_python_integers(counter, key) -> None:
    assert tuple(int(value) for value in philox4x32(words(counter), words(key))) == reference_philox(counter, key)


@settings(max_examples=25)
@given(
    st.integers(0, 2**63 - 1),
    st.sampled_from(sorted(STREAMS)),
    st.integers(0, 2**32 - 1),
    st.integers(0, 7),
    st.integers(1, 30),
)
def test_a_draw_is_the_documented_counter(seed, name, step, site, count) -> None:
    drawn = stream([seed], name, step).bits(site, (count,))[0].tolist()
    blocks = -(-count // 4)
    key = (seed & 0xFFFFFFFF, seed >> 32)
    for i, value in enumerate(drawn):
        assert value == reference_philox((i % blocks, site, step, STREAMS[name]), key)[i // blocks]


@given(st.integers(1, 9), st.integers(1, 5), st.integers(1, 4), st.data())
def test_rows_of_a_draw_are_those_of_the_whole(rows, width, depth, data) -> None:
    whole = stream([3, 2**40], "dropout", 7).bits(2, (rows, width, depth))
    first = data.draw(st.integers(0, rows - 1))
    last = data.draw(st.integers(first + 1, rows))
    some = stream([3, 2**40], "dropout", 7).bits(2, (rows, width, depth), rows=(first, last))
    assert torch.equal(some, whole[:, first:last])


def test_a_seed_draws_the_same_alone_and_among_others() -> None:
    assert torch.equal(stream([4]).bits(0, (3, 5))[0], stream([9, 4, 1]).bits(0, (3, 5))[1])


def test_streams_of_seeds_steps_names_and_sites_are_uncorrelated() -> None:
    draws = [stream([seed], name, step).uniform(site, (4096,))[0].numpy()
             for seed in (0, 1, 2**40) for name in STREAMS for step in (0, 1) for site in (0, 1)]  # fmt: skip
    correlation = np.corrcoef(np.stack(draws))
    pairs = correlation[np.triu_indices(len(draws), 1)]
    # The largest of n normal deviates with standard deviation 1/sqrt(4096) stays below this with probability 0.999.
    bound = scipy.stats.norm.isf(0.001 / (2 * len(pairs))) / np.sqrt(4096)
    assert np.abs(pairs).max() < bound
    assert scipy.stats.kstest(pairs * np.sqrt(4096), "norm").pvalue > 0.001


def test_uniform_and_normal_have_their_distributions() -> None:
    uniform, normal = stream([3]).uniform(0, (20000,))[0].numpy(), stream([3]).normal(1, (20000,))[0].numpy()
    assert scipy.stats.kstest(uniform, "uniform").pvalue > 0.001
    assert scipy.stats.kstest(normal, "norm").pvalue > 0.001
    assert uniform.min() >= 0 and uniform.max() < 1


@pytest.mark.parametrize(("n", "take"), [(4, 4), (5, 3), (20, 6), (20, 19)])
def test_permutations_are_distinct_and_uniform(n: int, take: int) -> None:
    rows = stream([5, 6]).permutations(0, 6000, n, take)
    assert rows.shape == (2, 6000, take)
    assert all(len(set(row)) == take for row in rows.reshape(-1, take)[:500].tolist())
    assert rows.min() >= 0 and rows.max() < n
    for column in range(min(take, 4)):
        assert scipy.stats.chisquare(np.bincount(rows[0, :, column].numpy(), minlength=n)).pvalue > 1e-4
    if n == 4:
        orders = np.unique(rows[0].numpy(), axis=0, return_counts=True)[1]
        assert len(orders) == 24 and scipy.stats.chisquare(orders).pvalue > 1e-4


def test_integers_cover_their_range() -> None:
    drawn = stream([8]).integers(0, (9000,), 9)[0].numpy()
    assert scipy.stats.chisquare(np.bincount(drawn, minlength=9)).pvalue > 1e-4


def test_integers_are_in_their_range_up_to_the_largest() -> None:
    noise = Noise(stream([8]), None)
    for integers in (stream([8]).integers, noise.integers):
        drawn = integers(0, (9000,), 2**31)
        assert drawn.min() >= 0 and 2**31 * 0.99 < drawn.max() < 2**31
        with pytest.raises(ValueError, match=str(2**31 + 1)):
            integers(0, (9000,), 2**31 + 1)


@pytest.mark.slow
def test_compiled_numbers_are_the_eager_ones() -> None:
    """Compiled C++ may take signed overflow as impossible: words drawn from every kind of counter and key."""

    def words_of(seeds: torch.Tensor, step: torch.Tensor, blocks: torch.Tensor) -> tuple[torch.Tensor, ...]:
        stream = Stream(seeds, "data", step)
        low, high = (seeds & 0xFFFFFFFF)[:, None], (seeds >> 32)[:, None]
        free = philox4x32((blocks, blocks * 3 & 0xFFFFFFFF, blocks ^ 0xFFFF, blocks >> 1), (low, high))
        chosen = (free[0] * 1000) >> 32
        return (*free, chosen, free[2] < 2**31, stream.bits(2, (5, 3)), stream.permutations(0, 4, 9, 3))

    seeds = torch.tensor([0, 1, 2**40 + 5, 2**63 - 1])
    blocks = torch.arange(0, 2**32, 2**32 // 97)[None, :]
    compiled = compile_program(words_of, "cpu")
    for words, expected in zip(
        compiled(seeds, torch.tensor(77), blocks), words_of(seeds, torch.tensor(77), blocks), strict=True
    ):
        assert torch.equal(words, expected)


def test_rows_of_many_chunks_and_parts_of_a_step_have_random_numbers_of_their_own() -> None:
    """Beyond 16,384 tokens a row has more than 128 chunks of queries."""
    stream, drawn = Stream(torch.tensor([3]), "dropout", torch.tensor(1)), set()
    chunks, sites = (0, 1, 127, 128, 129, 255, 256, 1000, 2047), (0, 3, HIDDEN_SITE, CHUNK_SITES - 1)
    for part in (0, 1, 2, 8, 255):
        noise = Noise(stream, None, torch.tensor([0.5]), part=part)
        for site in (site + CHUNK_SITES * chunk for chunk in chunks for site in sites):
            words = noise.integers(site, (4, 1), 2**31)
            if site < 2**20:  # as ever
                assert torch.equal(words, stream.bits(site + part * 2**20, (4, 1)) >> 1)
            drawn.add(tuple(words.flatten().tolist()))
    assert len(drawn) == 5 * len(chunks) * len(sites)
    with pytest.raises(ValueError, match=r"fewer than 262,144$"):
        noise.integers(CHUNK_SITES * 2048, (4, 1), 2)
