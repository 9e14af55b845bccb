"""Flip-flop language modelling: what is drawn, what is scored, and strategies whose scores are known."""

import math

import pytest
import torch

from tests.trainers.own_tasks import scores_of
from trainers.random import Stream
from trainers.tasks.recall.flip_flop import IGNORE, ONE, PAD, READ, WRITE, ZERO, FlipFlop
from trainers.tasks.supervised import IGNORED
from trainers.tasks.task import EvaluationBatch

SHARES = {"iid": 0.8, "sparse": 0.98, "dense": 0.1}


def sets_of(task: FlipFlop, samples: int, seeds: tuple[int, ...] = (3,)) -> list[EvaluationBatch]:
    stream = Stream(torch.tensor(seeds), "eval", torch.tensor(0))
    return list(task.evaluation_batches(stream, samples, task.lengths))


def saying(batch, predictions: torch.Tensor) -> torch.Tensor:
    """Logits (M, B, T, 6) of a model that predicts these tokens."""
    return torch.nn.functional.one_hot(predictions, 6).float()


def remembered(tokens: torch.Tensor) -> torch.Tensor:
    """What follows each token if it is r: the bit after the last w, read one token at a time."""
    expected = torch.full_like(tokens, PAD)
    for seed in range(tokens.shape[0]):
        for row in range(tokens.shape[1]):
            written = PAD
            for position, token in enumerate(tokens[seed, row].tolist()):
                if position % 2 and tokens[seed, row, position - 1] == WRITE:
                    written = token
                expected[seed, row, position] = written
    return expected


def test_rows_have_the_form_and_the_frequencies_of_the_data_set() -> None:
    """256 pairs: the mean number of reads is 1 + 254 (1 - p) / 2, about 26.4, 3.5 and 115.3."""
    for test in sets_of(FlipFlop(), 2000):
        share, tokens = SHARES[test.distribution], test.batch.tokens[0]
        kinds, bits = tokens[:, ::2], tokens[:, 1::2]
        assert (kinds[:, 0] == WRITE).all() and (kinds[:, -1] == READ).all()
        assert set(kinds.unique().tolist()) <= {WRITE, READ, IGNORE} and set(bits.unique().tolist()) == {ZERO, ONE}
        inner = kinds[:, 1:-1]
        for kind, chance in {WRITE: (1 - share) / 2, READ: (1 - share) / 2, IGNORE: share}.items():
            deviation = math.sqrt(chance * (1 - chance) / inner.numel())
            assert abs(float((inner == kind).float().mean()) - chance) < 5 * deviation
        reads = (kinds == READ).sum(dim=1).float()
        assert float(reads.mean()) == pytest.approx(1 + 254 * (1 - share) / 2, rel=0.03)
        free = bits[kinds != READ].float() - ZERO
        assert float(free.mean()) == pytest.approx(0.5, abs=5 * 0.5 / math.sqrt(free.numel()))


def test_training_is_as_the_iid_test_and_targets_are_the_bits_after_reads() -> None:
    batch = FlipFlop(pairs=20, ignore=0.5).sample(Stream(torch.tensor([1, 2]), "data", torch.tensor(1)), 500)
    assert batch.tokens.shape == (2, 500, 40)
    asked = batch.targets != IGNORED
    assert (asked == ((batch.tokens == READ) & (torch.arange(40) % 2 == 0))).all()
    assert (batch.targets[asked] == remembered(batch.tokens)[asked]).all()
    assert float((batch.tokens[..., 2:-2:2] == IGNORE).float().mean()) == pytest.approx(0.5, abs=0.02)
    assert not torch.equal(batch.tokens[0], batch.tokens[1])


def test_who_remembers_the_last_write_makes_no_mistake_in_any_distribution_at_any_length() -> None:
    task = FlipFlop(pairs=6, test_pairs=(2, 24))
    sets = set()
    for test in sets_of(task, 60, seeds=(3, 4)):
        scores = scores_of(task, saying(test.batch, remembered(test.batch.tokens)), test.batch, test.lengths)
        assert (scores["accuracy"] == 1).all() and (scores["read_error"] == 0).all()
        sets.add((test.distribution, *test.lengths))
    assert sets == {(name, length) for name in SHARES for length in (2, 6, 24)}


def test_copying_the_bit_of_the_pair_before_is_wrong_where_that_was_ignored_half_of_the_time() -> None:
    """Per read 1 - p / 2 are right, 0.60, 0.51 and 0.95; guessing is right for half of them."""
    task = FlipFlop()
    for test in sets_of(task, 2000):
        before = torch.nn.functional.pad(test.batch.tokens, (1, 0))[..., :-1]
        scores = scores_of(task, saying(test.batch, before), test.batch, (256,))
        assert 1 - float(scores["read_error"]) == pytest.approx(1 - SHARES[test.distribution] / 2, abs=0.02)
        bits = torch.randint(ZERO, ONE + 1, before.shape, generator=torch.Generator().manual_seed(0))
        guessed = scores_of(task, saying(test.batch, bits), test.batch, (256,))
        assert float(guessed["read_error"]) == pytest.approx(0.5, abs=0.02)


def test_scores_are_those_counted_read_by_read() -> None:
    task = FlipFlop(pairs=12, measured_distances=(1, 3, 8))
    for test in sets_of(task, 40, seeds=(3, 4)):
        logits = torch.randn(2, 40, 24, 6, generator=torch.Generator().manual_seed(1))
        logits[..., ZERO] += 3.0  # often right
        scores = scores_of(task, logits, test.batch, (12,))
        for member in range(2):
            exact, errors = [], []
            for row in range(40):
                tokens, wrong = test.batch.tokens[member, row].tolist(), False
                for position in range(0, 24, 2):
                    if tokens[position] == WRITE:
                        last = position
                    if tokens[position] == READ:
                        missed = int(logits[member, row, position].argmax()) != tokens[last + 1]
                        errors.append(((position - last) // 2, missed))
                        wrong = wrong or missed
                exact.append(not wrong)
            assert float(scores["accuracy"][member]) == pytest.approx(sum(exact) / 40)
            assert float(scores["read_error"][member]) == pytest.approx(sum(m for _, m in errors) / len(errors))
            for low, high in ((1, 3), (3, 8), (8, 99)):
                here = [missed for distance, missed in errors if low <= distance < high]
                value = float(scores[f"read_error_distance_{low}"][member])
                assert value == pytest.approx(sum(here) / len(here)) if here else math.isnan(value)


def test_the_names_of_the_metrics_and_what_is_trained() -> None:
    metrics = FlipFlop(pairs=4, test_pairs=(8,)).recorded_metrics({}, (4, 8))
    assert set(metrics) == {f"{name}{of}" for name in ("accuracy", "read_error") for of in ("", ".sparse", ".dense")}
    assert metrics["accuracy"].trained_lengths == (4,) and metrics["accuracy.sparse"].trained_lengths == ()
    assert metrics["read_error.dense"].direction == "minimize" and metrics["read_error.dense"].lengths == (4, 8)


def test_what_the_first_rows_of_a_seed_are_stays() -> None:
    """Sweeps are compared over years: the same seed has the same rows for good."""
    task = FlipFlop(pairs=8, ignore=0.4)
    batch = task.sample(Stream(torch.tensor([0]), "data", torch.tensor(1)), 2)
    fixed = FlipFlop(pairs=8, ignore=0.4, fixed_set=100).sample(Stream(torch.tensor([0]), "data", torch.tensor(1)), 1)
    dense = sets_of(task, 1, seeds=(0,))[-1].batch
    assert [" ".join(task.format_row(of, row)[0]) for of, row in ((batch, 0), (batch, 1), (fixed, 0), (dense, 0))] == [
        "w 1 r 1 r 1 i 1 w 1 w 0 r 0 r 0",
        "w 1 i 1 r 1 r 1 w 1 w 0 i 0 r 0",
        "w 0 i 1 w 1 w 1 w 1 i 0 i 0 r 1",
        "w 1 r 1 w 0 w 0 r 0 r 0 r 0 r 0",
    ]
