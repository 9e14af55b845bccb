"""Prepare the texts that tasks read: tokenize a data set from a hub or a folder into one file of the data folder.

Needs the libraries of `lengthwise[data]`. Training reads the file without them.
"""

import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestrator.errors import LengthwiseError, UserError, refuse_unwritable
from orchestrator.plan.checks.soundness import SAMPLES, configurations_of
from orchestrator.plan.search import draw_sample
from search_spaces import SweepSpec
from trainers.errors import CorpusError
from trainers.tasks.language.corpus import SPLITS, data_folder, open_corpus, write_corpus

TOKENIZER = "tokenizer.json"  # of the tokenizers library, in a folder that is given
LINES = 1000  # tokenized at once
_BUILDERS = {".parquet": "parquet", ".jsonl": "json", ".txt": "text"}


@dataclass(frozen=True)
class Recipe:
    """The source of a text: a data set of a hub with a column `text`, its configuration, and a tokenizer."""

    dataset: str
    configuration: str
    tokenizer: str


RECIPES = {"wikitext-103": Recipe("Salesforce/wikitext", "wikitext-103-raw-v1", "openai-community/gpt2")}


def fetch_corpora(spec: SweepSpec, source: Path | None = None) -> Iterator[str]:
    """Prepare each missing text that the tasks of a sweep read; yield one line for each text.

    `source` is a folder with the data set (files named by their splits) and a tokenizer.json; None is the hub. Raises
    UserError for an unknown text and an incomplete folder, LengthwiseError if the hub cannot be reached. Existing texts
    are unchanged.
    """
    if source is not None and not source.is_dir():
        raise UserError(f"--source {source}: this folder does not exist")
    built = configurations_of(spec, [(one.number, one.values) for one in draw_sample(spec, SAMPLES)])
    names = list(dict.fromkeys(name for one in built for name in one.member(spec.seeds[0]).task.corpora))
    if not names:
        yield f"{spec.name}: its task reads no text"
    for name in names:
        try:
            corpus = open_corpus(name)
            yield f"{corpus.path} is there already: SHA-256 {corpus.sha256}"
        except CorpusError:
            yield prepare(name, source)


def prepare(name: str, source: Path | None = None) -> str:
    """Prepare one text and return a line about it. Raises as `fetch_corpora`, and LengthwiseError for a full disk."""
    recipe, path = RECIPES.get(name), data_folder() / f"{name}.tokens"
    if path.exists():
        raise UserError(f"{path} exists and cannot be used; move it away first")
    if recipe is None and source is None:
        known = ", ".join(RECIPES)
        raise UserError(
            f"corpus {name!r}: unknown source (known: {known}); --source names a folder with its "
            f"data set and a {TOKENIZER}, or put any text as {path.with_suffix('.txt')}, which is read byte by byte"
        )
    try:
        import datasets
        import tokenizers
    except ImportError as error:
        raise UserError(f"texts are prepared with {error.name}: install `lengthwise[data]`") from error
    files = {} if source is None else _files(source)
    with tempfile.TemporaryDirectory(prefix="lengthwise-") as scratch:
        try:
            if source is not None:
                tokenizer = tokenizers.Tokenizer.from_file(str(source / TOKENIZER))
                text = datasets.load_dataset(cache_dir=scratch, **files)
            else:
                assert recipe is not None
                tokenizer = tokenizers.Tokenizer.from_pretrained(recipe.tokenizer)
                text = datasets.load_dataset(recipe.dataset, recipe.configuration, cache_dir=scratch)
        except Exception as error:  # the libraries raise errors of any kind
            first = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise LengthwiseError(
                f"corpus {name!r} cannot be read from {source or recipe}: {first}\n"
                "HF_ENDPOINT names a mirror of the hub, --source a folder with the data set and a "
                f"{TOKENIZER}, such as one copied from a machine with a network"
            ) from error
        if lacking := [split for split in SPLITS if split not in text or "text" not in text[split].column_names]:
            raise UserError(f"corpus {name!r}: its data set has no column `text` in {', '.join(lacking)}")
        splits = {split: _tokens(tokenizer, (row["text"] for row in text[split])) for split in SPLITS}
    words = [tokenizer.id_to_token(number) or f"<{number}>" for number in range(tokenizer.get_vocab_size())]
    about = {"source": str(source)} if source else vars(recipe)
    with refuse_unwritable(path, LengthwiseError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_corpus(path, words, splits, about)
    sizes = ", ".join(f"{len(splits[split]):,} {split}" for split in SPLITS)
    return f"prepared {path}: {sizes} tokens of {len(words):,} kinds, SHA-256 {open_corpus(name).sha256}"


def _files(source: Path) -> dict[str, Any]:
    """Return the arguments of `load_dataset` for the files of a folder. Raises UserError if some are missing."""
    if not (source / TOKENIZER).is_file():
        raise UserError(f"--source {source}: it has no {TOKENIZER}")
    for ending, builder in _BUILDERS.items():
        found = {split: sorted(map(str, source.rglob(f"*{split}*{ending}"))) for split in SPLITS}
        if all(found.values()):
            kept: Mapping[str, Any] = {"keep_linebreaks": True} if builder == "text" else {}
            return {"path": builder, "data_files": found, **kept}
    raise UserError(
        f"--source {source}: it has no files of the splits {', '.join(SPLITS)}; allowed: names with these words "
        f"in them that end with {', '.join(_BUILDERS)}"
    )


def _tokens(tokenizer: Any, lines: Iterable[str]) -> NDArray[np.int32]:
    """Return the token ids of a text, line after line, without special tokens."""
    lines, found = iter(lines), [np.zeros(0, np.int32)]
    while some := list(islice(lines, LINES)):
        found += [np.array(one.ids, np.int32) for one in tokenizer.encode_batch(some, add_special_tokens=False)]
    return np.concatenate(found)
