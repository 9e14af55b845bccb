"""Texts are prepared from a data set with its tokenizer; each error is one line."""

import json
import sys
from pathlib import Path

import pytest
import torch

from orchestrator.errors import LengthwiseError, UserError
from orchestrator.preview import corpora
from orchestrator.preview.corpora import fetch_corpora, prepare_corpus
from search_spaces import load_sweep
from trainers.tasks.language.corpus import open_corpus

SWEEP = """name: text
study: tests
task: {name: wikitext, corpus: small, train_window: 8, test_windows: [16]}
model: {name: decoder, layers: 1, width: 8, heads: 2}
training: {steps: 4, batch_size: 4, learning_rate: 0.01, compile: false}
seeds: 1
evaluation: {samples: 5}
objective: {metric: perplexity.validation, average: raw, lengths: [8], direction: minimize}
"""
TEXT = [" = Cats = \n", "\n", " The cat sat on the mat , and the mat was flat .\n", " Ein Käfer läuft .\n"] * 30
SPLITS = {"train": TEXT, "validation": TEXT[2:40], "test": TEXT[1:50]}


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LENGTHWISE_DATA", str(tmp_path / "data"))
    (tmp_path / "text.yaml").write_text(SWEEP)
    return load_sweep(tmp_path / "text.yaml")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in place of the hub, with a data set and a tokenizer that was trained on it."""
    tokenizers = pytest.importorskip("tokenizers", reason="the libraries of lengthwise[data] are not installed")
    pytest.importorskip("datasets", reason="the libraries of lengthwise[data] are not installed")
    folder = tmp_path / "hub copy"
    folder.mkdir()
    tokenizer = tokenizers.ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(TEXT, vocab_size=300, show_progress=False)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    for split, lines in SPLITS.items():
        (folder / f"{split}.jsonl").write_text("\n".join(json.dumps({"text": line}) for line in lines))
    monkeypatch.setitem(corpora.RECIPES, "small", corpora.Recipe(str(folder), None, str(tmp_path / "tokenizer.json")))
    monkeypatch.setattr(tokenizers.Tokenizer, "from_pretrained", tokenizers.Tokenizer.from_file, raising=False)
    return folder


def test_a_data_set_becomes_a_text_in_the_tokens_of_its_tokenizer(spec, hub, tmp_path: Path) -> None:
    from tokenizers import Tokenizer

    (line,) = fetch_corpora(spec)
    corpus, tokenizer = open_corpus("small"), Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert corpus.path == tmp_path / "data" / "small.tokens" and corpus.sha256 in line
    assert corpus.vocabulary == 300 and corpus.words[tokenizer.token_to_id("Ġmat")] == "Ġmat"
    for split, lines in SPLITS.items():
        ids = corpus.ids(split, torch.arange(corpus.size(split))).tolist()
        assert ids == [token for line in lines for token in tokenizer.encode(line).ids]
        assert tokenizer.decode(ids) == "".join(lines) and f"{len(ids):,} {split}" in line
    (again,) = fetch_corpora(spec)
    assert str(corpus.path) in again and corpus.sha256 in again
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == ["small.tokens"]


def test_the_same_data_set_gives_the_same_bytes(spec, hub) -> None:
    list(fetch_corpora(spec))
    first = open_corpus("small")
    first.path.unlink()
    list(fetch_corpora(spec))
    assert open_corpus("small").sha256 == first.sha256


def test_a_text_of_which_nothing_is_known_is_refused(spec, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"corpus 'small': unknown.*wikitext-103.*small\.txt"):
        list(fetch_corpora(spec))


def test_a_file_that_cannot_be_used_is_not_written_over(spec, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "small.tokens").write_text("mine")
    with pytest.raises(UserError, match="move it to another folder"):
        list(fetch_corpora(spec))
    assert (tmp_path / "data" / "small.tokens").read_text() == "mine"


def test_a_hub_that_cannot_be_reached_is_one_clear_error(spec, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizers = pytest.importorskip("tokenizers", reason="the libraries of lengthwise[data] are not installed")
    pytest.importorskip("datasets", reason="the libraries of lengthwise[data] are not installed")

    def unreachable(name: str) -> None:
        raise OSError("no route to host\nand more")

    monkeypatch.setattr(tokenizers.Tokenizer, "from_pretrained", unreachable, raising=False)
    with pytest.raises(LengthwiseError, match=r"no route to host.*HF_ENDPOINT.*wikitext-103\.tokens") as error:
        prepare_corpus("wikitext-103")
    assert error.value.exit_code == 1


def test_missing_libraries_are_named_with_the_install_command(spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"needs the package datasets; install `lengthwise\[data\]`"):
        prepare_corpus("wikitext-103")


def test_a_task_without_texts_needs_none(tmp_path: Path) -> None:
    spec = load_sweep(Path(__file__).parents[3] / "search_spaces" / "quickstart.yaml")
    assert list(fetch_corpora(spec)) == ["quickstart: its task reads no corpus"]
