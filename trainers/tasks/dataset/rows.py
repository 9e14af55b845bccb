"""Rows of tokens and targets, padded at their end, from the columns of files.

Shapes: N rows, T positions of the widest row, K values of all rows.
"""

import csv
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainers.errors import ConfigError, Problem, find_nearest
from trainers.tasks.dataset.readers import Cells, Ragged, open_columns
from trainers.tasks.supervised import IGNORED

PAD = 0  # at the end of rows, where targets are masked
_INTEGER = re.compile(r"-?\d+")
_MAX_NUMBER = 2**31  # the largest id or length
_MAX_DIGITS = 20  # of an integer in a text, with its sign
_MAX_SHOWN = 80  # characters of a cell in a message


@dataclass(frozen=True, kw_only=True)
class RowFormat:
    """The settings of rows: the names of their columns, the tokenizer, and the vocabulary if it is given."""

    tokens: str
    targets: str | None
    answer: str | None
    length: str | None
    tokenizer: str
    vocabulary: int | str | None


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a file: tokens and targets (N, T), ending in PAD and IGNORED; lengths and numbers of tokens (N,)."""

    tokens: Tensor
    targets: Tensor
    lengths: NDArray[np.int64]
    widths: NDArray[np.int64]

    @cached_property
    def distinct_lengths(self) -> tuple[int, ...]:
        """The distinct lengths, ascending."""
        return tuple(np.unique(self.lengths).tolist())

    def sorted_by_length(self) -> "Rows":
        """Return the rows sorted by length; rows of the same length stay in the order of the file."""
        order = np.argsort(self.lengths, kind="stable")
        index = torch.from_numpy(order)
        return Rows(self.tokens[index], self.targets[index], self.lengths[order], self.widths[order])

    def find_length(self, length: int, max_rows: int) -> tuple[slice, int]:
        """Return the slice of the first rows of a length, at most `max_rows`, and their width; rows must be sorted."""
        first, end = np.searchsorted(self.lengths, [length, length + 1])
        rows = slice(int(first), int(min(end, first + max_rows)))
        return rows, int(self.widths[rows].max())


@dataclass(frozen=True, eq=False)
class Data:
    """The rows of each file by key (train, test, validation), the number of ids, and the text of each id.

    words: None if the files have ids instead of text.
    """

    rows: Mapping[str, Rows]
    vocabulary: int
    words: tuple[str, ...] | None


@lru_cache(maxsize=4)
def copy_to_device(rows: Rows, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return tokens, targets and numbers of tokens of rows on a device, copied once."""
    return rows.tokens.to(device), rows.targets.to(device), torch.from_numpy(rows.widths).to(device)


def read_data(folder: Path, files: Mapping[str, str], row_format: RowFormat) -> Data:
    """Return the rows of files, given by key. Raises ConfigError with file, column and row of the first problem."""
    tables = {
        key: _Table(key, file, row_format, _read_cells(folder, key, file, row_format)) for key, file in files.items()
    }
    words, vocabulary = tables["train"].make_vocabulary()

    # Early stopping evaluates every trained length, so each needs validation rows.
    rows = {key: table.make_rows(words, vocabulary) for key, table in tables.items()}
    missing = {*rows["train"].distinct_lengths}.difference(rows.get("validation", rows["train"]).distinct_lengths)
    if missing:
        raise tables["validation"].make_error(f"has no row of the trained length {min(missing)}")
    ordered = {key: split if key == "train" else split.sorted_by_length() for key, split in rows.items()}
    return Data(ordered, vocabulary, words)


def _read_cells(folder: Path, key: str, file: str, row_format: RowFormat) -> dict[str, Cells]:
    """Return the cells of the columns that are used, by role. Raises ConfigError."""
    roles = {role: name for role in ("tokens", "targets", "answer", "length") if (name := getattr(row_format, role))}
    try:
        # Find a wrong column name first, because reading a large file takes long.
        columns = open_columns(folder / file)
        for role, name in roles.items():
            if name not in columns:
                nearest = find_nearest(name, columns)
                message = f"{name!r} is not a column of {file}"
                raise ConfigError([
                    Problem(key=role, given=name, message=message, allowed=", ".join(columns), nearest=nearest)
                ])  # fmt: skip
        return {role: columns[name]() for role, name in roles.items()}
    except ConfigError:
        raise
    except Exception as error:  # damaged files raise errors of zipfile, zlib and pyarrow, too
        cause = str(error) if isinstance(error, (ValueError, csv.Error)) else f"cannot be read: {error}"
        raise ConfigError([Problem(key=key, given=file, message=f"{file!r} {cause}")]) from error


@dataclass(frozen=True)
class _Table:
    """A file: its columns by role (tokens, targets, answer, length) as cells, and as integers or tokens of text."""

    key: str
    file: str
    row_format: RowFormat
    cells: Mapping[str, Cells]
    columns: dict[str, Ragged | list[Sequence[str]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for role, cells in self.cells.items():
            is_text = self.row_format.tokenizer != "none" and role != "length"
            self.columns[role] = self._split_texts(role, cells) if is_text else self._read_integers(role, cells)

        # The arrays of an .npz file may have different lengths.
        counts = {
            role: len(column.counts if isinstance(column, Ragged) else column) for role, column in self.columns.items()
        }
        for role, count in counts.items():
            if count != counts["tokens"]:
                raise self.make_error(f"has {count} rows, the column of the tokens {counts['tokens']}", role)

    def make_error(
        self, message: str, role: str | None = None, row: int | None = None, allowed: str | None = None
    ) -> ConfigError:
        """Return an error of the file, of the column of a role, or of its cell in a row, counted from 0."""
        location = [f"column {getattr(self.row_format, role)}"] if role else []
        location += [f"row {row + 1}"] if row is not None else []
        text = f"{self.file!r} {', '.join(location)}{': ' if location else ''}{message}"
        return ConfigError([Problem(key=self.key, given=self.file, message=text, allowed=allowed)])

    def _check_rows(self, is_wrong: NDArray[np.bool_], message: str, role: str, allowed: str | None = None) -> None:
        """Raise ConfigError for the first wrong row of a column."""
        if is_wrong.any():
            raise self.make_error(message, role, int(is_wrong.argmax()), allowed)

    def _split_texts(self, role: str, cells: Cells) -> list[Sequence[str]]:
        """Return the tokens of every text of a column."""
        if isinstance(cells, Ragged):
            raise self.make_error("has lists of ids", role, allowed="texts, or the tokenizer none")
        values = cells.tolist() if isinstance(cells, np.ndarray) else cells
        for row, value in enumerate(values):
            if type(value) not in (str, int):
                raise self.make_error(f"{value!r} is not a text", role, row)
        return [str(value).split() if self.row_format.tokenizer == "words" else str(value) for value in values]

    def _read_integers(self, role: str, cells: Cells) -> Ragged:
        """Return the integers of a column, any number in each row."""
        if isinstance(cells, np.ndarray):
            return Ragged(cells, np.ones(len(cells), np.int64))
        if isinstance(cells, Ragged):
            return cells
        return _make_ragged([self._parse_cell(role, row, cell) for row, cell in enumerate(cells)])

    def _parse_cell(self, role: str, row: int, cell: Any) -> list[int]:
        """Return the integers of a cell: a number, a list, or a text with numbers. Raises ConfigError."""
        numbers = cell if isinstance(cell, list) else [cell]
        if isinstance(cell, str):
            words = cell.strip(" []").replace(",", " ").split()
            is_short = all(len(word) <= _MAX_DIGITS for word in words)  # int() refuses thousands of digits
            numbers = [int(word) if is_short and _INTEGER.fullmatch(word) else word for word in words]
        if any(type(number) is not int or abs(number) > _MAX_NUMBER for number in numbers):
            allowed = "integers" if role == "length" else "integers, or text with the tokenizer characters or words"
            shown = repr(cell) if len(repr(cell)) <= _MAX_SHOWN else f"{repr(cell)[:_MAX_SHOWN]}..."
            raise self.make_error(f"{shown} is neither an integer nor a list of integers", role, row, allowed)
        return numbers

    def make_vocabulary(self) -> tuple[tuple[str, ...] | None, int]:
        """Return the tokens of text in the order of their ids, None for ids, and the number of ids."""
        columns = {role: self.columns[role] for role in self.columns if role != "length"}
        declared = self.row_format.vocabulary
        if self.row_format.tokenizer == "none":
            largest = max(int(self._look_up_ids(role, None, _MAX_NUMBER).values.max(initial=0)) for role in columns)
            return None, declared if isinstance(declared, int) else 1 + largest

        # Tokens are sorted, so that their ids do not depend on the order of the rows.
        tokens = {token for column in columns.values() for row in column for token in row}
        if isinstance(declared, str):
            tokens = {*(declared.split() if self.row_format.tokenizer == "words" else declared)}
        if isinstance(declared, int) and declared < len(tokens):
            message = f"{declared} is less than the {len(tokens)} distinct tokens"
            allowed = f">= {len(tokens)}, or null"
            raise ConfigError([Problem(key="vocabulary", given=declared, message=message, allowed=allowed)])
        return tuple(sorted(tokens)), declared if isinstance(declared, int) else len(tokens)

    def _look_up_ids(self, role: str, words: Sequence[str] | None, vocabulary: int) -> Ragged:
        """Return the ids of a column; targets may be IGNORED. Raises ConfigError for an unknown token or id."""
        column = self.columns[role]
        if not isinstance(column, Ragged):
            ids = {word: number for number, word in enumerate(words or ())}
            for row, tokens in enumerate(column):
                if unknown_tokens := [token for token in tokens if token not in ids]:
                    allowed = "tokens of the training file, or of `vocabulary`"
                    raise self.make_error(f"has the unknown token {unknown_tokens[0]!r}", role, row, allowed)
            return _make_ragged([[ids[token] for token in tokens] for tokens in column])

        # The row of a wrong id follows from the number of ids in the rows before it.
        is_masked = (column.values == IGNORED) & (role == "targets")
        is_wrong = ((column.values < 0) | (column.values >= vocabulary)) & ~is_masked
        if is_wrong.any():
            position = is_wrong.argmax()
            allowed = f"0 to {vocabulary - 1}" + (f", {IGNORED} for a masked target" if role == "targets" else "")
            row = int((column.counts.cumsum() <= position).sum())
            raise self.make_error(f"id {column.values[position]} is out of range", role, row, allowed)
        return column

    def make_rows(self, words: Sequence[str] | None, vocabulary: int) -> Rows:
        """Return the padded rows. Raises ConfigError."""
        # The target of a token is the next one, so a row of plain text needs two.
        tokens = self._look_up_ids("tokens", words, vocabulary)
        row_format = self.row_format
        if not len(tokens.counts):
            raise self.make_error("has no rows")
        min_tokens = 2 if row_format.targets is None and row_format.answer is None else 1
        self._check_rows(tokens.counts < min_tokens, "has too few tokens", "tokens", f"at least {min_tokens}")

        # Without given targets they are the tokens of the text, shifted by one.
        if row_format.targets is not None:
            targets = self._look_up_ids("targets", words, vocabulary)
            message = "has a different number of targets than of tokens"
            self._check_rows(targets.counts != tokens.counts, message, "targets")
            inputs = _pad_rows(tokens, PAD)
            outputs = _pad_rows(targets, IGNORED)
            widths = tokens.counts
            self._check_rows((outputs == IGNORED).all(axis=1), "has only masked targets", "targets")
        else:
            # Only the tokens of an answer count, if rows have one; otherwise every token after the first.
            text = tokens
            start = np.zeros_like(tokens.counts)
            if row_format.answer is not None:
                answer = self._look_up_ids("answer", words, vocabulary)
                self._check_rows(answer.counts < 1, "has no token", "answer")
                text = _join_rows(tokens, answer)
                start = tokens.counts - 1
            padded = _pad_rows(text, PAD)
            widths = text.counts - 1
            position = np.arange(padded.shape[1] - 1)
            is_input = position < widths[:, None]
            inputs = np.where(is_input, padded[:, :-1], PAD)
            outputs = np.where(is_input & (position >= start[:, None]), padded[:, 1:], IGNORED)

        # Ids are stored in the smallest type that holds them; a batch converts its own to int64.
        lengths = self.columns.get("length", Ragged(tokens.counts, np.ones_like(tokens.counts)))
        assert isinstance(lengths, Ragged)
        self._check_rows(lengths.counts != 1, "must hold exactly one number", "length")
        is_short = lengths.values < 1
        self._check_rows(is_short, f"length {lengths.values[is_short.argmax()]} is not allowed", "length", ">= 1")
        dtype = torch.int16 if vocabulary < 2**15 else torch.int32
        stored = [torch.from_numpy(values).to(dtype) for values in (inputs, outputs)]
        return Rows(stored[0], stored[1], lengths.values, widths)


def _make_ragged(rows: Sequence[Sequence[int]]) -> Ragged:
    """Return lists of integers as Ragged."""
    counts = np.array([len(row) for row in rows], np.int64)
    return Ragged(np.array([value for row in rows for value in row], np.int64), counts)


def _pad_rows(ids: Ragged, fill: int) -> NDArray[np.int64]:
    """Return rows of equal width, (N, T), with `fill` at their end."""
    padded = np.full((len(ids.counts), ids.counts.max()), fill)
    padded[np.arange(padded.shape[1]) < ids.counts[:, None]] = ids.values
    return padded


def _join_rows(first: Ragged, second: Ragged) -> Ragged:
    """Return rows with the values of the first, then of the second."""
    counts = first.counts + second.counts
    position = np.arange(counts.max())
    is_second = (position >= first.counts[:, None])[position < counts[:, None]]
    values = np.empty(len(is_second), np.int64)
    values[~is_second], values[is_second] = first.values, second.values
    return Ragged(values, counts)
