"""Problems of a file, and `Findings`, which collects them and knows the line of every key.

The *key path* of a value is its dotted key, with list items in brackets: `objective.lengths[1]`,
`space.training.clip.when`. Checks give the key path of a problem; `Findings` adds file and line.

ValueError
└── SweepFileError      a sweep file, or a --set override, cannot be used; has all problems
"""

import difflib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from search_spaces.grammar.sections import ABSENT


@dataclass(frozen=True)
class FileProblem:
    """A problem at a line of a file: location, key, message, given value, allowed values, nearest valid name.

    The checks of `trainers` know no file: they return a `trainers.errors.Problem`, which gets its line by
    `Findings.add_problem`, or in `orchestrator.plan.configurations`.

    >>> print(FileProblem("a.yaml:3", "objective.reduce", "is not allowed", "men", "mean, max, last", "mean"))
    a.yaml:3: objective.reduce: is not allowed (did you mean mean?); given 'men'; allowed: mean, max, last
    """

    where: str
    key: str
    message: str
    given: Any = ABSENT
    allowed: str | None = None
    nearest: str | None = None

    def __str__(self) -> str:
        # The nearest name comes before the allowed ones, which may be many.
        subject = f"{self.where}: {self.key}: " if self.key else f"{self.where}: "
        hint = f" (did you mean {self.nearest}?)" if self.nearest is not None else ""
        parts = [subject + self.message + hint]

        # The given value is left out where the message begins or ends with it.
        given = ABSENT if self.given is ABSENT else format_value(self.given)
        begins = self.message.startswith((f"{self.given!r} ", f"{given} "))
        if given is not ABSENT and not (begins or self.message.endswith(f" {self.given!r}")):
            parts.append(f"given {given}")
        if self.allowed is not None:
            parts.append(f"allowed: {self.allowed}")
        return _escape_unprintable("; ".join(parts))


class SweepFileError(ValueError):
    """A sweep file cannot be used. `problems` has all problems; str() has a line for each, in the order of the file.

    `unchecked` names the parts that were not checked because of them; "" if everything was checked.
    """

    def __init__(self, problems: Iterable[FileProblem], unchecked: str = "") -> None:
        self.problems = tuple(problems)
        self.unchecked = unchecked
        super().__init__("\n".join(str(problem) for problem in self.problems))

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the constructor and the problems for pickle; by default it would pass only the joined text."""
        return type(self), (self.problems, self.unchecked)

    @property
    def full_text(self) -> str:
        """The problems, and the parts that were not checked because of them, as text."""
        return f"{self}\n({self.unchecked})" if self.unchecked else str(self)


def format_value(value: Any, limit: int = 100) -> str:
    """Return a value as YAML on one line, cut at `limit` characters."""
    text = repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)
    text = _escape_unprintable(text)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _escape_unprintable(text: str) -> str:
    """Return the text with unprintable characters as escapes."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def find_nearest_name(given: Any, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the valid name closest to the given name; None if no name is close (difflib's ratio below `cutoff`).

    Ignores case. `trainers.errors.find_nearest` is for the names of trainers, and knows abbreviations such as lr.
    """
    # A long text is not a misspelt name, and difflib is slow on it.
    if not isinstance(given, str) or len(given) > 200:
        return None
    name_by_folded = {name.casefold(): name for name in names}
    matches = difflib.get_close_matches(given.casefold(), name_by_folded, n=1, cutoff=cutoff)
    return name_by_folded[matches[0]] if matches else None


SECRET_KEY = "notify"  # its value is never shown: the address of a webhook is a secret
MAX_REPETITIONS = 10  # listed problems of a kind
_VARYING = re.compile(r"""'[^']*'|"[^"]*"|\([^)]*\)|\{.*\}|\[.*\]|-?\d[\d.e+-]*""")  # names and values in a message


@dataclass(frozen=True)
class Location:
    """A line of a file, or a --set override. Prints as `file.yaml:12` or `--set key=value`."""

    source: str
    line: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


def join_key_path(key_path: str, part: str | int) -> str:
    """Return the key path of an item inside the value at `key_path`: an index of a list, or a key of a mapping."""
    if isinstance(part, int):
        return f"{key_path}[{part}]"
    if not part.isprintable() or len(part) > 200:
        part = repr(part[:200])
    return f"{key_path}.{part}" if key_path else part


def get_outer_key_path(key_path: str) -> str:
    """Return the key path one level up; '' for a top-level key."""
    cut = max(key_path.rfind("."), key_path.rfind("["))
    return key_path[:cut] if cut > 0 else ""


def list_outer_key_paths(key_path: str) -> Iterator[str]:
    """Yield the key paths of all outer values, the nearest first."""
    while key_path := get_outer_key_path(key_path):
        yield key_path


def is_within(key_path: str, ancestor: str) -> bool:
    """Return whether a key path equals `ancestor` or is inside it."""
    return key_path.startswith(ancestor) and (len(key_path) == len(ancestor) or key_path[len(ancestor)] in ".[")


class Findings:
    """The problems of a file, each with the location of its key path.

    A value is doubtful if it could not be read or was replaced; problems that follow from it are dropped. `locations`
    has the location of each key path, `notes` has messages that are not problems.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.locations: dict[str, Location] = {}
        self._anchors: set[str] = set()
        self._problems: dict[tuple[Location, str, str], FileProblem] = {}
        self._doubtful: set[str] = set()
        self._partly_doubtful: set[str] = set()
        self.notes: list[str] = []

    def without_problems(self) -> "Findings":
        """Return findings with the same locations and notes, but without problems."""
        findings = Findings(self.source)
        findings.locations, findings.notes = dict(self.locations), list(self.notes)
        return findings

    def find_location(self, key_path: str) -> Location:
        """Return the location of a key path; of its nearest ancestor if the file does not have it."""
        # A missing key has no line, but the section around it has.
        while key_path and key_path not in self.locations:
            key_path = get_outer_key_path(key_path)
        return self.locations.get(key_path, Location(self.source, 1))

    def relocate(self, key_path: str, locations: dict[str, Location]) -> None:
        """Replace the locations at and below a key path, after an override."""
        self.locations = {
            old: location for old, location in self.locations.items() if not is_within(old, key_path)
        } | locations

    def add(
        self,
        key_path: str,
        message: str,
        *,
        given: Any = ABSENT,
        allowed: str | None = None,
        nearest: str | None = None,
        names: Iterable[str] | None = None,
        misspelt: Any = ABSENT,
        location: Location | None = None,
    ) -> None:
        """Record a problem, unless the value at its key path is doubtful.

        names: the allowed names; the nearest to `misspelt`, by default to `given`, is suggested.
        """
        # A problem of a doubtful value follows from another problem, which is recorded already.
        if isinstance(given, list) and ABSENT in given:
            return
        if self._is_inside_doubtful(key_path):
            return

        if names is not None:
            names = tuple(names)
            allowed = allowed or ", ".join(names)
            nearest = nearest or find_nearest_name(given if misspelt is ABSENT else misspelt, names)
        if key_path == SECRET_KEY:
            given = ABSENT
        location = location or self.find_location(key_path)
        self._problems.setdefault(
            (location, key_path, message), FileProblem(str(location), key_path, message, given, allowed, nearest)
        )

    def add_problem(self, problem: Any, key_path: str | None = None, location: Location | None = None) -> None:
        """Record a FileProblem, or a Problem of trainers, at `key_path` instead of its key if given."""
        details = {"given": problem.given, "allowed": problem.allowed, "nearest": problem.nearest}
        self.add(problem.key if key_path is None else key_path, problem.message, **details, location=location)

    def add_unreadable(
        self, key_path: str, message: str, *, given: Any = ABSENT, location: Location | None = None
    ) -> None:
        """Record a problem of a value that cannot be read, and mark the value as doubtful."""
        self.add(key_path, message, given=given, location=location)
        self.mark_doubtful(key_path)

    def mark_doubtful(self, key_path: str) -> None:
        """Mark a value as doubtful, so that problems that follow from it are dropped."""
        if key_path:
            self._doubtful.add(key_path)
            self._partly_doubtful.update(list_outer_key_paths(key_path))

    def is_doubtful(self, key_path: str) -> bool:
        """Return whether the value at a key path, or a part of it, is doubtful."""
        return self._is_inside_doubtful(key_path) or key_path in self._partly_doubtful

    def mark_anchor(self, key_path: str) -> None:
        """Mark a key path that has an anchor: the anchor is reported instead of the unknown key above it."""
        self._anchors.update((key_path, *list_outer_key_paths(key_path)))

    def has_anchor(self, key_path: str) -> bool:
        """Return whether the value at a key path, or a part of it, has an anchor."""
        return key_path in self._anchors

    def _is_inside_doubtful(self, key_path: str) -> bool:
        """Return whether the value at a key path, or an outer value, is doubtful."""
        return key_path in self._doubtful or any(outer in self._doubtful for outer in list_outer_key_paths(key_path))

    def note(self, location: Location, text: str) -> None:
        """Record a message for the user that is not a problem; repetitions are dropped."""
        if (line := f"{location}: {text}") not in self.notes:
            self.notes.append(line)

    @property
    def problems(self) -> tuple[FileProblem, ...]:
        """The problems so far: of the file by line, then of overrides; repetitions of a kind are counted."""

        def make_sort_key(entry: tuple[tuple[Location, str, str], FileProblem]) -> tuple[bool, int]:
            location = entry[0][0]
            return location.source != self.source, location.line or 0

        return tuple(_limit_repetitions([problem for _, problem in sorted(self._problems.items(), key=make_sort_key)]))

    def raise_any(self, unchecked: str = "") -> None:
        """Raise SweepFileError if there are problems; `unchecked` names the parts that were not checked."""
        if self._problems:
            raise SweepFileError(self.problems, unchecked)


def _limit_repetitions(problems: list[FileProblem]) -> Iterator[FileProblem]:
    """Yield the first problems of each kind (equal except for names and numbers), then a problem with their count."""
    # Count first, because a kind that exceeds the limit by one problem is listed in full.
    counts = Counter(_strip_values(problem) for problem in problems)
    yielded: Counter[str] = Counter()
    for problem in problems:
        kind = _strip_values(problem)
        yielded[kind] += 1
        if counts[kind] <= MAX_REPETITIONS + 1 or yielded[kind] <= MAX_REPETITIONS:
            yield problem
        elif yielded[kind] == MAX_REPETITIONS + 1:
            yield FileProblem(
                problem.where, "", f"and {counts[kind] - MAX_REPETITIONS:,} more like it: {problem.message}"
            )


def _strip_values(problem: FileProblem) -> str:
    """Return the message of a problem without names and values."""
    return _VARYING.sub("", problem.message)
