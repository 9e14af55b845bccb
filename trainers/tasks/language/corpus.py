"""Texts as token ids in memory-mapped files, opened by name and verified by a hash.

A corpus is a file of the data folder, LENGTHWISE_DATA or ~/.cache/lengthwise/data. NAME.tokens is a prepared corpus: a
line of JSON with the name of every token and the size of every split, padded with blanks to a multiple of 64 bytes,
then the ids of all splits. NAME.txt is any text: its ids are its bytes, the first 90 % for training, then 5 % each for
validation and test. This folder has a corpus, Paradise Lost by John Milton (1667, second edition 1674), which is in the
public domain.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainers.errors import CorpusError, suggest_nearest
from trainers.files.atomic_file import write_atomic
from trainers.files.data_folders import DATA_VARIABLE, find_data_folder
from trainers.files.file_digest import compute_file_digest

SPLITS = ("train", "validation", "test")
_SHIPPED = Path(__file__).parent
_FORMAT = 1
_BLOCK_BYTES = 64  # the ids begin at a multiple of this
_TYPES = {"<u1": torch.uint8, "<u2": torch.int16, "<i4": torch.int32}  # type in the file -> type in torch
_SHARES = (18, 1, 1)  # relative sizes of the splits of a plain text


@dataclass(frozen=True)
class Corpus:
    """An open corpus: its file, the names of its token ids, and the range of ids of each split."""

    name: str
    path: Path
    sha256: str
    words: tuple[str, ...]
    splits: Mapping[str, tuple[int, int]]
    offset: int
    dtype: str

    @property
    def vocabulary(self) -> int:
        """Number of distinct tokens."""
        return len(self.words)

    def size(self, split: str) -> int:
        """Return the number of ids of a split."""
        first, last = self.splits[split]
        return last - first

    def ids(self, split: str, index: Tensor) -> Tensor:
        """Return the ids at these positions of a split, int64, with the shape and device of `index`."""
        stored = _map_ids(self.path, self.sha256, self.offset, self.dtype, index.device)[self.splits[split][0] + index]
        return stored.long() & 0xFFFF if stored.dtype == torch.int16 else stored.long()


def open_corpus(name: str, sha256: str | None = None) -> Corpus:
    """Return the corpus of this name, and with this hash if it is given.

    Raises CorpusError, whose message says how to fix it, if the file is missing, has another hash or cannot be read.
    """
    # A file in the user's data folder is preferred to one that comes with lengthwise.
    folders = (find_data_folder(), _SHIPPED)
    candidates = [folder / f"{name}.{ending}" for folder in folders for ending in ("tokens", "txt")]
    present_files = [path for path in candidates if path.is_file()]
    if not present_files:
        names = sorted(
            {path.stem for folder in folders for end in ("tokens", "txt") for path in folder.glob(f"*.{end}")}
        )
        raise CorpusError(
            f"corpus {name!r}: there is no {folders[0] / name}.tokens; allowed: {', '.join(names)}"
            f"{suggest_nearest(name, names)}; download it with `lengthwise data FILE --fetch`, "
            f"or set {DATA_VARIABLE} to its folder"
        )

    # The data folder and this one may have different versions of a corpus.
    try:
        hashes = {path: compute_file_digest(path) for path in present_files}
    except OSError as error:
        raise CorpusError(f"{error.filename}: cannot be read: {error.strerror}") from error
    path = next((path for path in present_files if hashes[path] == sha256), present_files[0])
    if sha256 not in (None, hashes[path]):
        raise CorpusError(
            f"{path}: is another version of the corpus {name!r}: its SHA-256 is {hashes[path]}, not {sha256}; "
            f"replace the file, or set {DATA_VARIABLE} to the folder of the right file"
        )
    return _open_file(name, path, hashes[path])


def write_corpus(
    path: Path, words: Sequence[str], splits: Mapping[str, NDArray[np.integer[Any]]], about: Mapping[str, Any]
) -> None:
    """Write a corpus file. Raises OSError.

    words: the name of every token. splits: the ids of every split. about: the source, recorded in the file.
    """
    # The first line is padded, so that the ids after it are aligned in memory.
    dtype = next(name for name, size in (("<u1", 2**8), ("<u2", 2**16), ("<i4", 2**31)) if len(words) <= size)
    sizes = {split: len(splits[split]) for split in SPLITS}
    header = {"format": _FORMAT, "dtype": dtype, "splits": sizes, "about": dict(about), "words": list(words)}
    line = json.dumps(header).encode()
    line = line + b" " * (-(len(line) + 1) % _BLOCK_BYTES) + b"\n"
    write_atomic(path, [line, *(np.ascontiguousarray(splits[split], dtype=dtype).tobytes() for split in SPLITS)])


@lru_cache(maxsize=16)
def _open_file(name: str, path: Path, sha256: str) -> Corpus:
    """Return the corpus of a file whose hash is known. Raises CorpusError."""
    if path.suffix == ".txt":
        size = path.stat().st_size
        ends = [size * sum(_SHARES[:k]) // sum(_SHARES) for k in range(len(_SHARES) + 1)]
        splits = dict(zip(SPLITS, pairwise(ends), strict=True))
        return Corpus(name, path, sha256, _list_byte_names(), splits, 0, "<u1")

    # A prepared corpus describes itself in its first line.
    with path.open("rb") as file:
        line = file.readline()
    try:
        header = json.loads(line)
        if header["format"] != _FORMAT:
            raise CorpusError(f"{path}: has format {header['format']}; allowed: {_FORMAT}; prepare it again")
        ends = np.cumsum([0, *(header["splits"][split] for split in SPLITS)]).tolist()
        splits = dict(zip(SPLITS, pairwise(ends), strict=True))
        corpus = Corpus(name, path, sha256, tuple(header["words"]), splits, len(line), header["dtype"])
        expected = len(line) + ends[-1] * np.dtype(corpus.dtype).itemsize
    except (ValueError, KeyError, TypeError) as error:
        raise CorpusError(f"{path}: is not a corpus: its first line cannot be read ({error})") from error
    if path.stat().st_size != expected or corpus.dtype not in _TYPES:
        raise CorpusError(f"{path}: is damaged: it should have {expected} bytes; prepare it again")
    return corpus


def _list_byte_names() -> tuple[str, ...]:
    """Return the text of every byte: printable characters, ␣ for a blank, ¶ for a line end, else <number>."""
    return tuple(chr(byte) if 32 < byte < 127 else {32: "␣", 10: "¶"}.get(byte, f"<{byte}>") for byte in range(256))


@lru_cache(maxsize=8)
def _map_ids(path: Path, sha256: str, offset: int, dtype: str, device: torch.device) -> Tensor:
    """Return all ids of a file: memory-mapped on a CPU, copied once to another device."""
    ids = np.memmap(path, dtype=dtype, mode="c", offset=offset)  # never written; torch warns about read-only arrays
    tensor = torch.from_numpy(ids.view(np.int16) if dtype == "<u2" else np.asarray(ids))
    return tensor.to(device)
