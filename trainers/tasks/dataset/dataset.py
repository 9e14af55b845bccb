"""Training and test rows that are stored in files: the fixed training set epoch by epoch, the test set by length.

Shapes: S seeds, B rows, T positions.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Self

from trainers.errors import ConfigError, CorpusError, Problem, find_nearest
from trainers.files.data_folders import DATA_VARIABLE, list_search_folders
from trainers.files.file_digest import compute_file_digest
from trainers.random import Stream
from trainers.settings.fields import setting
from trainers.settings.registry import register
from trainers.tasks.dataset.readers import FORMATS, list_data_files
from trainers.tasks.dataset.rows import Data, RowFormat, copy_to_device, read_data
from trainers.tasks.fixed_set import find_visited_samples
from trainers.tasks.supervised import IGNORED
from trainers.tasks.task import Batch, EvaluationBatch, Task

_SHIPPED = Path(__file__).parent
_FILE_SETTINGS = ("train", "test", "validation")
_VISIBLE_BLANKS = str.maketrans(" \n\t", "␣¶→")  # how blanks and line ends are shown


@register("task", "dataset")
class Dataset(Task):
    """Input: rows of files. Output: the next token, the tokens of an answer, or a target for every token.

    An epoch has every training row once, in a different order for each seed and epoch. Length is a column, or the
    number of tokens. Rows are padded at their end to the widest row of their file or length; pads have no targets, and
    `lengths` of a batch has the numbers of tokens.

    >>> task = Dataset(train="sums.csv", test="sums.csv", tokens="question", answer="sum", tokenizer="characters")
    >>> task.trained_lengths, task.inputs
    ((4, 6), 12)
    >>> stream = Stream(torch.tensor([1]), "data", torch.tensor(1))
    >>> sorted("".join(task.format_row(task.sample(stream, 4), row)[1]) for row in range(4))
    ['___13', '___8', '_____132', '_____140']
    """

    trial_settings: ClassVar[Mapping[str, Any]] = {
        **{"train": "sums.csv", "test": "sums.csv", "validation": "sums.csv"},
        **{"tokens": "question", "answer": "sum", "tokenizer": "characters"},
    }

    train: str = setting(help=f"file of the training rows, beside the sweep file: {FORMATS}")
    test: str = setting(help="file of the test rows")
    validation: str | None = setting(None, help="file of the rows for early stopping")
    tokens: str = setting("tokens", help="column of the input tokens")
    targets: str | None = setting(None, help="column with a target for every input token, -100 for a masked one")
    answer: str | None = setting(
        None, help="column of the tokens after the input, which alone are targets; without both: the next token"
    )
    length: str | None = setting(None, help="column of the lengths; null: the number of tokens in the column `tokens`")
    tokenizer: str = setting(
        "none",
        choices=("none", "characters", "words"),
        help="how texts become tokens: columns have ids, or characters or words between blanks are tokens",
    )
    vocabulary: int | str | None = setting(
        None, low=1, help="number of ids, or a text with all tokens; null: those of the training file, sorted"
    )
    sha256: str | None = setting(None, help="hash of the files; null: the hash of the files when the sweep is planned")

    def find_combination_problems(self) -> Iterator[Problem]:
        """Yield the first problem of the settings or files."""
        if self.targets is not None and self.answer is not None:
            yield self._make_problem("answer", "excludes `targets`", "null")
        elif isinstance(self.vocabulary, str) and self.tokenizer == "none":
            yield self._make_problem("vocabulary", "is a text, and the tokenizer is none", "a number of ids, or null")
        elif self.sha256 is not None and not re.fullmatch(r"[0-9a-f]{64}", self.sha256):
            yield self._make_problem("sha256", "is not a SHA-256", "64 hexadecimal digits, or null")
        else:
            try:  # reading the files is the check
                _ = self.data
            except ConfigError as error:
                yield from error.problems

    @property
    def files(self) -> dict[str, str]:
        """The paths of the files, as given, by setting."""
        return {key: path for key in _FILE_SETTINGS if (path := getattr(self, key)) is not None}

    @property
    def folder(self) -> Path:
        """The folder of the files; with a pinned hash, the folder whose files have it. Raises ConfigError."""
        try:
            folders = [*list_search_folders(), _SHIPPED]
        except CorpusError as error:
            raise ConfigError([self._make_problem("train", str(error))]) from error
        complete_folders = [
            folder for folder in folders if all((folder / path).exists() for path in self.files.values())
        ]
        if not complete_folders:
            raise ConfigError([self._make_missing_problem(folders)])

        # Other folders may have other versions of the files.
        verified = next(
            (folder for folder in complete_folders if self.sha256 in (None, self._hash_files(folder))), None
        )
        if verified is None:
            folder = complete_folders[0]
            message = f"the files in {folder} have the SHA-256 {self._hash_files(folder)}, not the recorded one"
            raise ConfigError([self._make_problem("sha256", message, "the recorded files, or null")])
        return verified

    def _make_missing_problem(self, folders: Sequence[Path]) -> Problem:
        """Return the problem of a file that no folder has; the message names it in the most complete folder."""
        folder = max(folders, key=lambda folder: sum((folder / path).exists() for path in self.files.values()))
        key, path = next((key, folder / path) for key, path in self.files.items() if not (folder / path).exists())
        siblings = [sibling.name for sibling in path.parent.iterdir()] if path.parent.is_dir() else []
        message = f"there is no file {path}; paths begin at the sweep file or in {DATA_VARIABLE}"
        return replace(self._make_problem(key, message), nearest=find_nearest(path.name, siblings))

    def _hash_files(self, folder: Path) -> str:
        """Return the hash of the contents of all files. Raises ConfigError if one cannot be read."""
        try:
            contents = [
                [key, *map(compute_file_digest, list_data_files(folder / path))]
                for key, path in sorted(self.files.items())
            ]
        except OSError as error:
            raise ConfigError(
                [self._make_problem("train", f"{error.filename}: cannot be read: {error.strerror}")]
            ) from error
        return hashlib.sha256(json.dumps(contents).encode()).hexdigest()

    @property
    def data(self) -> Data:
        """The rows of all files, read once per process. Raises ConfigError."""
        data = _read_files(self if self.sha256 is not None else self.pin_data())
        if isinstance(data, ConfigError):
            raise data.with_traceback(None)
        return data

    def pin_data(self) -> Self:
        """Return this task with the hash of its files; unchanged if a hash is set. Raises ConfigError."""
        return self if self.sha256 is not None else replace(self, sha256=self._hash_files(self.folder))

    def stored_files(self) -> tuple[Path, dict[str, str]]:
        """Return the folder of the task's files, and the SHA-256 of each file by its path there. Raises ConfigError."""
        folder = self.folder
        digests = dict[str, str]()
        for path in self.files.values():
            for file in list_data_files(folder / path):
                digests[str(Path(path) / file.relative_to(folder / path))] = compute_file_digest(file)
        return folder, digests

    @property
    def has_validation(self) -> bool:
        """Whether there is a file of validation rows."""
        return self.validation is not None

    @property
    def inputs(self) -> int:
        """Number of token ids."""
        return self.data.vocabulary

    @property
    def trained_lengths(self) -> tuple[int, ...]:
        """The lengths of the training rows."""
        return self.data.rows["train"].distinct_lengths

    @property
    def lengths(self) -> tuple[int, ...]:
        """The lengths of the test rows."""
        return self.data.rows["test"].distinct_lengths

    @property
    def positions(self) -> int:
        """Number of positions of the widest row."""
        return max(rows.tokens.shape[1] for rows in self.data.rows.values())

    @property
    def train_positions(self) -> int:
        """Number of positions of a training row."""
        return self.data.rows["train"].tokens.shape[1]

    def sample(self, stream: Stream, rows: int) -> Batch:
        """Return the next rows of the epoch of every seed of the stream."""
        train = self.data.rows["train"]
        index_SB = find_visited_samples(stream, rows, len(train.lengths))
        tokens_NT, targets_NT, widths_N = copy_to_device(train, index_SB.device)
        return Batch(tokens_NT[index_SB].long(), targets_NT[index_SB].long(), lengths=widths_N[index_SB])

    def evaluation_batches(self, stream: Stream, samples: int, lengths: tuple[int, ...]) -> Iterator[EvaluationBatch]:
        """Yield the first test rows of every length, at most `samples`; they are the same for every seed."""
        return self._make_batches("test", stream, samples, lengths)

    def validation_batches(self, stream: Stream, samples: int) -> Iterator[EvaluationBatch]:
        """Yield the first validation rows of every trained length."""
        return self._make_batches("validation", stream, samples, self.trained_lengths)

    def _make_batches(
        self, key: str, stream: Stream, samples: int, lengths: tuple[int, ...]
    ) -> Iterator[EvaluationBatch]:
        """Yield the first rows of a file at every length, for every seed of the stream."""
        stored = self.data.rows[key]
        seeds = stream.seeds_S
        tokens_NT, targets_NT, widths_N = copy_to_device(stored, seeds.device)
        for length in lengths:
            rows, width = stored.find_length(length, samples)
            tokens, targets, widths = (
                table[rows].long().expand(len(seeds), *table[rows].shape)
                for table in (tokens_NT[:, :width], targets_NT[:, :width], widths_N)
            )
            yield EvaluationBatch(Batch(tokens, targets, lengths=widths), (length,))

    def format_row(self, batch: Batch, row: int) -> tuple[list[str], list[str]]:
        """Return tokens and targets of a row of the first seed as text, without pads; _ for a masked target."""
        tokens = batch.tokens[0, row].tolist()
        targets = batch.targets[0, row].tolist()
        end = len(tokens) if batch.lengths is None else int(batch.lengths[0, row])

        # A blank at the end of a row would not be seen.
        words = [str(number) for number in range(self.inputs)] if self.data.words is None else self.data.words
        names = {number: word.translate(_VISIBLE_BLANKS) for number, word in enumerate(words)} | {IGNORED: "_"}
        return [names[token] for token in tokens[:end]], [names[target] for target in targets[:end]]


@lru_cache(maxsize=8)
def _read_files(task: Dataset) -> Data | ConfigError:
    """Return the rows of a task whose hash is set, or the first problem of its files; cached.

    Raises ConfigError if files are missing.
    """
    folder = task.folder
    row_format = RowFormat(**{field.name: getattr(task, field.name) for field in fields(RowFormat)})
    try:
        return read_data(folder, task.files, row_format)
    except ConfigError as error:  # returned, because a raised error would not be cached
        return error
