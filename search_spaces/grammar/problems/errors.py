"""Problems of sweep files, written for the author of the file.

ValueError
└── SweepFileError      a sweep file, or a --set override, cannot be used; has all Problems
"""

import difflib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final


class Absent:
    """The type of ABSENT: no value, as opposed to null."""

    def __repr__(self) -> str:
        return "ABSENT"

    def __reduce__(self) -> str:
        """Pickle as the one instance of each process."""
        return "ABSENT"


ABSENT: Final = Absent()


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong: where it is, which key, what was given, what is allowed, the nearest valid name.

    >>> print(Problem("a.yaml:3", "objective.reduce", "is not allowed", "men", "mean, max, last", "mean"))
    a.yaml:3: objective.reduce: is not allowed; given 'men'; allowed: mean, max, last; did you mean mean?
    """

    where: str
    key: str
    message: str
    given: Any = ABSENT
    allowed: str | None = None
    nearest: str | None = None

    def __str__(self) -> str:
        subject = f"{self.where}: {self.key}: " if self.key else f"{self.where}: "
        parts = [subject + self.message]
        if self.given is not ABSENT and not self.message.startswith((f"{self.given!r} ", f"{shown(self.given)} ")):
            parts.append(f"given {shown(self.given)}")
        if self.allowed is not None:
            parts.append(f"allowed: {self.allowed}")
        if self.nearest is not None:
            parts.append(f"did you mean {self.nearest}?")
        return _printable("; ".join(parts))


class SweepFileError(ValueError):
    """A sweep file cannot be used. `problems` are all problems; str() has one line for each, in file order.

    unchecked: what could not be checked because of them, as text; empty if everything was checked.
    """

    def __init__(self, problems: Iterable[Problem], unchecked: str = "") -> None:
        self.problems, self.unchecked = tuple(problems), unchecked
        super().__init__("\n".join(str(problem) for problem in self.problems))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the problems."""
        return type(self), (self.problems, self.unchecked)

    @property
    def in_full(self) -> str:
        """The problems, and what was not checked because of them."""
        return f"{self}\n({self.unchecked})" if self.unchecked else str(self)


def shown(value: Any, limit: int = 100) -> str:
    """Return a value as YAML on one line, cut at `limit` characters."""
    text = repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)
    text = _printable(text)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _printable(text: str) -> str:
    """Return the text with unprintable characters as escapes."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def nearest_name(given: Any, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the valid name closest to the given one, None if none is close (difflib's ratio below `cutoff`)."""
    if not isinstance(given, str) or len(given) > 200:
        return None
    by_folded = {name.casefold(): name for name in names}
    matches = difflib.get_close_matches(given.casefold(), by_folded, n=1, cutoff=cutoff)
    return by_folded[matches[0]] if matches else None
