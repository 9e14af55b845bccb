"""The errors of `trainers`, and `Problem`, a fault of a configuration.

TrainerError
├── ConfigError        a configuration that cannot be built: carries a `Problem` for each fault
├── PackError          members that cannot be trained as a single stacked program
├── CheckpointError    a checkpoint that belongs to other members, does not fit the parameters, or cannot be written
├── CorpusError        a text that is missing, does not match its recorded hash, or cannot be read
└── WeightsError       weights that cannot be written or read, or that do not match their checksum
"""

import difflib
import inspect
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any


class TrainerError(Exception):
    """Base of every error raised by `trainers`."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A fault of a configuration: its dotted key, the given value, the allowed values and the nearest valid name.

    It has no line of a file; `search_spaces.FileProblem` is a problem at one.

    missing_class: the kind and the name of a class that is not registered; None for other faults.
    """

    key: str
    message: str
    given: Any = None
    allowed: str | None = None
    nearest: str | None = None
    missing_class: tuple[str, str] | None = None

    def with_key_prefix(self, prefix: str) -> "Problem":
        """Return the problem with `prefix` and a dot before its key; unchanged for the prefix ""."""
        return replace(self, key=".".join(filter(None, (prefix, self.key))))

    def __str__(self) -> str:
        hint = f" (did you mean {self.nearest!r}?)" if self.nearest is not None else ""
        allowed = f"; allowed: {self.allowed}" if self.allowed is not None else ""
        return f"{self.key}: {self.message}{hint}{allowed}"


def find_repeated_name_problems(key: str, names: Sequence[str]) -> Iterator[Problem]:
    """Yield a problem if the field `key` has a name twice."""
    if len(set(names)) != len(names):
        yield Problem(key=key, given=list(names), message="has a name twice", allowed="distinct names")


class ConfigError(TrainerError, ValueError):
    """A configuration that cannot be built. `problems` lists every fault."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the constructor and the problems for pickle; by default pickle would pass only the joined text."""
        return type(self), (self.problems,)


class PackError(TrainerError, ValueError):
    """Members differ in more than member hyperparameters, so they cannot form a pack."""


class CheckpointError(TrainerError):
    """A checkpoint belongs to other members, does not fit the parameters, or cannot be written."""


class CorpusError(TrainerError):
    """A corpus is missing, does not match its recorded hash, or cannot be read; the message says how to fix it."""


class WeightsError(TrainerError):
    """Weights cannot be written or read, or do not match their checksum; the message names the file."""


def join_first_few(names: Sequence[str], maximum: int = 3) -> str:
    """Return at most the first `maximum` names as a text, or all of them if only one more is left.

    join_first_few(["a", "b", "c"], 2) -> "a, b, c"; join_first_few(["a", "b", "c", "d"], 2) -> "a, b and 2 more"
    """
    if len(names) <= maximum + 1:
        return ", ".join(names)
    return f"{', '.join(names[:maximum])} and {len(names) - maximum} more"


def format_ranges(numbers: Sequence[int]) -> str:
    """Return whole numbers as ranges: format_ranges((1, 2, 3, 7)) -> "1-3, 7"; "none" without numbers."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs) or "none"


def get_first_line(error: BaseException) -> str:
    """Return the first line of an error's message; for an empty message the name of the error's type."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def describe_briefly(error: BaseException, line: int = 0) -> str:
    """Return the type of an error and one line of its message, by default the first: "ValueError: no rows"."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[line]}" if lines else type(error).__name__


def locate_in_user_code(error: BaseException, files: Collection[str] | None = None) -> str:
    """Return the last traceback line in the user's own code as " (FILE:LINE, FUNCTION)", "" if there is none.

    files: the user's files; by default all files outside of Python and of this package.
    """
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_user_file(frame.filename, files)]
    return f" ({frames[-1].filename}:{frames[-1].lineno}, {frames[-1].name})" if frames else ""


def locate_method(method: Callable[..., object]) -> str:
    """Return where a method is defined as " (FILE:LINE, NAME)"; "" if it is not written in Python."""
    code = getattr(inspect.unwrap(method), "__code__", None)
    return f" ({code.co_filename}:{code.co_firstlineno}, {code.co_name})" if code else ""


def _is_user_file(filename: str, files: Collection[str] | None) -> bool:
    """Return whether a file is among `files`; for None, whether it is outside of Python and of this package."""
    if files is not None:
        return filename in files
    return "/lib/python" not in filename and not Path(filename).is_relative_to(Path(__file__).parent)


FULL_NAMES = {"lr": "learning_rate", "wd": "weight_decay", "bs": "batch_size", "eps": "epsilon"}


def find_nearest(name: Any, allowed: Iterable[str]) -> str | None:
    """Return the allowed name closest to `name`, or the name that it abbreviates; None if no name is close.

    For names of classes, keys and values that trainers know: exact in case. `search_spaces.grammar.problems` has
    `find_nearest_name` for names in files, which ignores case and knows no abbreviations.
    """
    # Abbreviations have too few letters in common with their full names.
    allowed = list(allowed)
    if (full_name := FULL_NAMES.get(str(name))) in allowed:
        return full_name

    return next(iter(difflib.get_close_matches(str(name), allowed, n=1, cutoff=0.6)), None)


def suggest_nearest(name: Any, allowed: Iterable[str]) -> str:
    """Return the end of a message on an unknown name, such as "; did you mean learning_rate?"; "" if none is close."""
    nearest = find_nearest(name, allowed)
    return f"; did you mean {nearest}?" if nearest else ""
