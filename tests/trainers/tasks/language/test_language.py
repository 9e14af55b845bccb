"""Language modelling: perplexities against an independent computation, windows, and what is wrong with texts."""

import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.trainers.own_tasks import mean_loss, scores_of
from trainers import Checkpoints, MemberConfig, train
from trainers.errors import CorpusError
from trainers.random import Stream
from trainers.tasks.language.corpus import open_corpus, write_corpus
from trainers.tasks.language.language import Language, Wikitext

SIZES = {"train": 4000, "validation": 300, "test": 700}
PARADISE_LOST = "2603c175d2230d2a96e0d54b7eb201f7aaccd7e2a1bd43994610145cf0327576"


def markov(tokens: int, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A text in which each token depends on the one before, and the probabilities (tokens, tokens)."""
    draw = np.random.default_rng(seed)
    table = draw.dirichlet(np.full(tokens, 0.3), size=tokens)
    text = [0]
    for _ in range(size - 1):
        text.append(int(draw.choice(tokens, p=table[text[-1]])))
    return np.array(text), table


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, np.ndarray]]:
    """texts("name", tokens=7) puts a text of the data folder there and returns its splits."""
    monkeypatch.setenv("LENGTHWISE_DATA", str(tmp_path))

    def made(name: str = "small", tokens: int = 7, seed: int = 0, sizes: dict[str, int] = SIZES):
        text, _ = markov(min(tokens, 7), sum(sizes.values()), seed)
        text = text if tokens <= 7 else text * (tokens // 7)
        splits = dict(zip(sizes, np.split(text, np.cumsum([*sizes.values()])[:-1]), strict=True))
        write_corpus(tmp_path / f"{name}.tokens", [f"t{i}" for i in range(tokens)], splits, {"seed": seed})
        return splits

    return made


def small(**settings) -> Language:
    return Language(**{"corpus": "small", "train_window": 8, "test_windows": (16, 64), **settings})


def sets_of(task: Language, samples: int = 10_000, seeds: tuple[int, ...] = (3,)):
    return list(task.evaluation_batches(Stream(torch.tensor(seeds), "eval", torch.tensor(0)), samples, task.lengths))


@pytest.mark.parametrize("order", [1, 2])
def test_the_perplexity_of_a_known_model_is_the_one_computed_by_hand(texts, order: int) -> None:
    """Probabilities of a token, or of a token after another one; numpy goes through the windows token by token."""
    splits = texts()
    counts = np.ones((7, 7))
    np.add.at(counts, (splits["train"][:-1], splits["train"][1:]), 1)
    model = counts / counts.sum(axis=1, keepdims=True) if order == 2 else np.tile(counts.sum(0) / counts.sum(), (7, 1))
    for test in sets_of(small(), seeds=(3, 4)):
        (window,), text = test.lengths, splits[test.distribution]
        logits = torch.from_numpy(np.log(model)).float()[test.batch.tokens]
        perplexity = scores_of(small(), logits, test.batch, test.lengths)["perplexity"]
        total, count = 0.0, 0
        for first in range(0, len(text) - window, window):
            for position in range(first, first + window):
                total, count = total - math.log(model[text[position], text[position + 1]]), count + 1
        assert count == (len(text) - 1) // window * window
        assert perplexity[:, 0].tolist() == pytest.approx([math.exp(total / count)] * 2, rel=1e-5)
        assert float(mean_loss(small(), logits, test.batch)[0]) == pytest.approx(total / count, rel=1e-5)


def test_windows_do_not_overlap_and_all_lengths_are_measured_on_the_same_text(texts) -> None:
    splits = texts()
    for samples, tokens in ((10_000, 699), (20, 160)):
        for test in sets_of(small(), samples):
            (window,), text = test.lengths, splits[test.distribution]
            rows = max(1, min(tokens, len(text) - 1) // window)
            assert np.array_equal(test.batch.tokens[0], text[: rows * window].reshape(rows, window))
            assert np.array_equal(test.batch.targets[0], text[1 : rows * window + 1].reshape(rows, window))
    assert {(test.distribution, *test.lengths) for test in sets_of(small())} == {
        ("test", 8), ("test", 16), ("test", 64), ("validation", 8)
    }  # fmt: skip


def test_training_windows_begin_anywhere_in_the_training_text(texts) -> None:
    text = texts(sizes={"train": 20, "validation": 9, "test": 65})["train"]
    batch = small().sample(Stream(torch.tensor([1, 2]), "data", torch.tensor(1)), 3000)
    stretches = {tuple(text[first : first + 9]) for first in range(12)}
    rows = {
        (*row, targets[-1]) for row, targets in zip(batch.tokens[0].tolist(), batch.targets[0].tolist(), strict=True)
    }
    assert rows == stretches and torch.equal(batch.tokens[..., 1:], batch.targets[..., :-1])
    assert not torch.equal(batch.tokens[0], batch.tokens[1])


@pytest.mark.parametrize("tokens", [7, 256, 257, 65_536, 65_537, 100_000])
def test_ids_of_every_size_are_read_as_they_were_written(texts, tokens: int) -> None:
    splits = texts(tokens=tokens)
    corpus = open_corpus("small")
    assert corpus.vocabulary == tokens and {split: corpus.size(split) for split in SIZES} == SIZES
    for split, text in splits.items():
        assert np.array_equal(corpus.ids(split, torch.arange(len(text))), text)
    assert max(int(text.max()) for text in splits.values()) >= 6 * (tokens // 7)


def test_the_text_that_every_machine_has_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sweeps are compared over years: another text would need another name."""
    monkeypatch.setenv("LENGTHWISE_DATA", str(tmp_path / "not there"))
    corpus = open_corpus("paradise_lost")
    assert corpus.sha256 == PARADISE_LOST == hashlib.sha256(corpus.path.read_bytes()).hexdigest()
    assert {split: corpus.size(split) for split in SIZES} == {"train": 411091, "validation": 22838, "test": 22839}
    whole = b"".join(bytes(corpus.ids(split, torch.arange(corpus.size(split))).tolist()) for split in SIZES)
    assert whole == corpus.path.read_bytes() and whole.isascii()


def test_any_text_file_of_the_data_folder_is_a_corpus_of_its_bytes(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("LENGTHWISE_DATA", str(tmp_path))
    (tmp_path / "mine.txt").write_bytes(("Grüße! " * 40).encode())
    task = Language(corpus="mine", train_window=4, test_windows=(8,))
    assert not list(task.find_data_problems())
    tokens, targets = task.format_row(task.read_windows("train", torch.tensor([[0]])), 0)
    assert (tokens, targets) == (["G", "r", "<195>", "<188>"], ["r", "<195>", "<188>", "<195>"])


def test_problems_of_a_corpus_are_reported(texts, tmp_path: Path) -> None:
    texts()
    with pytest.raises(CorpusError, match=r"corpus 'smal': .*smal\.tokens.*mean small\?.*--fetch"):
        open_corpus("smal")
    known = open_corpus("small").sha256
    texts(seed=1)
    with pytest.raises(CorpusError, match=f"another version of the corpus 'small'.*not {known}"):
        open_corpus("small", known)
    path = tmp_path / "small.tokens"
    whole = path.read_bytes()
    path.write_bytes(whole[:-1])
    with pytest.raises(CorpusError, match="is damaged: it should have 5"):
        open_corpus("small")
    path.write_bytes(b"hello\n")
    with pytest.raises(CorpusError, match="is not a corpus: its first line"):
        open_corpus("small")
    head = json.loads(whole.splitlines()[0])
    path.write_bytes(json.dumps({**head, "format": 2}).encode() + b"\n")
    with pytest.raises(CorpusError, match="has format 2; allowed: 1"):
        open_corpus("small")


def test_a_text_is_planned_by_hash_and_names_the_configuration(texts, member) -> None:
    texts()
    bare = replace(member(0), task=small())
    planned = bare.pin_data()
    assert planned.task.sha256 == open_corpus("small").sha256 and planned.config_id != bare.config_id
    assert planned.pin_data() == planned and not list(planned.task.find_data_problems())
    texts(seed=1)
    assert bare.pin_data().config_id != planned.config_id
    (problem,) = planned.task.find_data_problems()
    assert problem.key == "corpus" and "another version" in problem.message
    missing = small(corpus="nowhere")
    assert missing.pin_data() == missing
    assert ".tokens; allowed: " in next(missing.find_data_problems()).message
    assert Wikitext().pin_data().sha256 is None


def test_windows_that_are_longer_than_the_text_are_a_problem(texts) -> None:
    texts(sizes={"train": 30, "validation": 8, "test": 60})
    problems_by_key = {problem.key: problem for problem in small(test_windows=(60,)).find_data_problems()}
    assert set(problems_by_key) == {"train_window", "test_windows"}
    assert (problems_by_key["train_window"].given, problems_by_key["train_window"].allowed) == (8, "< 8")
    assert problems_by_key["test_windows"].allowed == "< 60"
    assert not list(small(train_window=7, test_windows=(59,)).find_data_problems())


def language_member(seed: int, rate: float, **training) -> MemberConfig:
    return MemberConfig.from_dict(
        {
            "task": {"name": "language", "corpus": "small", "train_window": 8, "test_windows": [16]},
            "model": {"name": "decoder", "layers": 1, "width": 8, "heads": 2, "position": "rope"},
            "training": {"steps": 6, "batch_size": 4, "learning_rate": rate, "compile": False, **training},
            "evaluation": {"samples": 16},
            "seed": seed,
        }
    )


@pytest.mark.slow
def test_training_learns_the_text_and_no_checkpoint_holds_it(texts, recorder, tmp_path: Path) -> None:
    splits = texts(sizes={"train": 2_000_000 // 20, "validation": 300, "test": 700})
    member = language_member(0, 0.01, steps=150, batch_size=32)
    (result,) = train([member], recorder, checkpoints=Checkpoints(folder=tmp_path / "c", every_steps=100))
    (curve,) = [curve for curve in result.curves if curve.metric == "perplexity.validation" and curve.average == "raw"]
    frequencies = np.bincount(splits["train"], minlength=7) / len(splits["train"])
    unigram = math.exp(-np.log(frequencies[splits["validation"][1:]]).mean())
    assert curve.values[0] < 0.9 * unigram
    saved = sum(path.stat().st_size for path in (tmp_path / "c").rglob("*") if path.is_file())
    assert 0 < saved < len(splits["train"])
