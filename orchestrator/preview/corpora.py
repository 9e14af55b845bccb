"""Prepare the corpora that tasks read: tokenize a data set from a hub into a file of the data folder.

Needs the packages of `lengthwise[data]`, which training does not need.
"""

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.errors import LengthwiseError, UserError, convert_write_errors
from orchestrator.plan.checks.sweep_file_checks import SAMPLES, build_configurations
from orchestrator.plan.optuna_draws import draw_sample
from search_spaces import SweepSpec
from trainers.errors import CorpusError, get_first_line
from trainers.files.data_folders import find_data_folder
from trainers.tasks.language.corpus import SPLITS, open_corpus, write_corpus

LINES_PER_BATCH = 1000  # lines that the tokenizer gets at once


@dataclass(frozen=True)
class Recipe:
    """The source of a corpus: a data set of a hub with a column `text`, its configuration, and a tokenizer."""

    dataset: str
    configuration: str | None
    tokenizer: str


RECIPES = {"wikitext-103": Recipe("Salesforce/wikitext", "wikitext-103-raw-v1", "openai-community/gpt2")}


def fetch_corpora(spec: SweepSpec) -> Iterator[str]:
    """Prepare each missing corpus that the tasks of a sweep read; yield a line for each corpus.

    Existing corpora are unchanged. Raises UserError for an unknown name, LengthwiseError if the hub cannot be reached.
    """
    # Only a built task knows which corpora it reads.
    draws = [(configuration.number, configuration.values) for configuration in draw_sample(spec, SAMPLES)]
    members = [configuration.build_member(spec.seeds[0]) for configuration in build_configurations(spec, draws)]
    names = list(dict.fromkeys(name for member in members for name in member.task.corpora))
    if not names:
        yield f"{spec.name}: its task reads no corpus"

    # A corpus that can be opened is not replaced: recorded sweeps depend on its checksum.
    for name in names:
        try:
            corpus = open_corpus(name)
            yield f"{corpus.path} exists already: SHA-256 {corpus.sha256}"
        except CorpusError:
            yield prepare_corpus(name)


def prepare_corpus(name: str) -> str:
    """Prepare a corpus and return a line about it. Raises as `fetch_corpora`, and LengthwiseError for a full disk."""
    # All problems that need no download come first.
    path = find_data_folder() / f"{name}.tokens"
    if path.exists():
        raise UserError(f"{path}: exists and cannot be read; move it to another folder first")
    if (recipe := RECIPES.get(name)) is None:
        text_file = path.with_suffix(".txt")
        raise UserError(
            f"corpus {name!r}: unknown; allowed: {', '.join(RECIPES)}, or a text in {text_file}, read byte by byte"
        )
    splits, vocabulary = _download(recipe, path)
    with convert_write_errors(path, LengthwiseError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_corpus(path, vocabulary, splits, asdict(recipe))
    sizes = ", ".join(f"{len(splits[split]):,} {split}" for split in SPLITS)
    return f"prepared {path}: {sizes} tokens of {len(vocabulary):,} kinds, SHA-256 {open_corpus(name).sha256}"


def _download(recipe: Recipe, path: Path) -> tuple[dict[str, NDArray[np.int32]], list[str]]:
    """Return the token ids of each split, and the vocabulary, of the corpus for `path`.

    Raises UserError without the packages of `lengthwise[data]`, LengthwiseError if the hub cannot be reached.
    """
    try:
        import datasets
        import tokenizers
    except ImportError as error:
        raise UserError(f"corpus {path.stem!r}: needs the package {error.name}; install `lengthwise[data]`") from error

    # Cache the data set in a temporary folder, because it is needed only once.
    with tempfile.TemporaryDirectory(prefix="lengthwise-") as scratch:
        try:
            tokenizer = tokenizers.Tokenizer.from_pretrained(recipe.tokenizer)
            text = datasets.load_dataset(recipe.dataset, recipe.configuration, cache_dir=scratch)
        except Exception as error:  # the libraries raise errors of any kind
            raise LengthwiseError(
                f"corpus {path.stem!r}: cannot be read from {recipe.dataset}: {get_first_line(error)}; "
                f"set HF_ENDPOINT to a mirror, or copy {path.name} from another machine to {path.parent}"
            ) from error
        splits = {split: _tokenize(tokenizer, (row["text"] for row in text[split])) for split in SPLITS}

    # A tokenizer may have ids without a token.
    vocabulary = [tokenizer.id_to_token(number) or f"<{number}>" for number in range(tokenizer.get_vocab_size())]
    return splits, vocabulary


def _tokenize(tokenizer: Any, lines: Iterable[str]) -> NDArray[np.int32]:
    """Return the token ids of a text, line after line, without special tokens."""
    lines, ids = iter(lines), [np.zeros(0, np.int32)]
    while batch := list(islice(lines, LINES_PER_BATCH)):
        ids += [np.array(line.ids, np.int32) for line in tokenizer.encode_batch(batch, add_special_tokens=False)]
    return np.concatenate(ids)
