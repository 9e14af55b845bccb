"""The errors of `trainers`, and the form in which a wrong configuration is reported.

TrainerError
├── ConfigError        a configuration that cannot be built: carries one `Problem` per fault
├── PackError          members that cannot be trained as one stacked program
├── CheckpointError    a checkpoint of other members or of another layout, or one that cannot be written
├── CorpusError        a text that is missing, another one than is asked for, or not readable
└── WeightsError       weights that cannot be kept, or that are not what was written
"""

import difflib
import traceback
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any


class TrainerError(Exception):
    """Base of every error raised by `trainers`."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One fault of a configuration: the dotted key, what was given, what is allowed."""

    key: str
    message: str
    given: Any = None
    allowed: str | None = None
    nearest: str | None = None

    def under(self, prefix: str) -> "Problem":
        """The same problem seen from the enclosing section `prefix`; "" changes nothing."""
        return replace(self, key=".".join(filter(None, (prefix, self.key))))

    def __str__(self) -> str:
        text = f"{self.key}: {self.message}"
        if self.allowed is not None:
            text += f"; allowed: {self.allowed}"
        if self.nearest is not None:
            text += f"; did you mean {self.nearest!r}?"
        return text


class ConfigError(TrainerError, ValueError):
    """A configuration that cannot be built. `problems` lists every fault found."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled as what it was made of: from a worker it arrives with its problems, and not as its message again."""
        return type(self), (self.problems,)


class PackError(TrainerError, ValueError):
    """Members that differ in more than member hyperparameters were given as one pack."""


class CheckpointError(TrainerError):
    """A checkpoint belongs to other members, has another layout, or its folder cannot be written."""


class CorpusError(TrainerError):
    """A corpus is missing, is not what was asked for, or cannot be read; the message says what to do."""


class WeightsError(TrainerError):
    """Weights cannot be written, or are not what was written; the message names the file."""


def place_in_user_code(error: BaseException) -> str:
    """Return the last line outside libraries and this package that raised it, " (FILE:LINE, FUNCTION)", or ""."""
    own = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if "/lib/python" not in frame.filename and not Path(frame.filename).is_relative_to(Path(__file__).parent)
    ]
    return f" ({own[-1].filename}:{own[-1].lineno}, {own[-1].name})" if own else ""


def nearest(name: Any, allowed: Iterable[str]) -> str | None:
    """The allowed name closest to `name`, or None when nothing is close."""
    found = difflib.get_close_matches(str(name), list(allowed), n=1, cutoff=0.6)
    return found[0] if found else None
