"""Problems of a file, and `Findings`, which collects them and knows the line of every key.

The *address* of a key is its dotted path, with list items in brackets: `objective.lengths[1]`,
`space.training.clip.when`. Checks give the address of a problem; `Findings` adds file and line.

ValueError
└── SweepFileError      a sweep file, or a --set override, cannot be used; has all problems
"""

import difflib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final


class Absent:
    """The type of ABSENT: no value, as opposed to null."""

    def __repr__(self) -> str:
        return "ABSENT"

    def __reduce__(self) -> str:
        """Pickle by name, so that every process has a single instance."""
        return "ABSENT"


ABSENT: Final = Absent()


@dataclass(frozen=True)
class FileProblem:
    """A problem: its location, its key, a message, the given value, the allowed values, the nearest valid name.

    >>> print(FileProblem("a.yaml:3", "objective.reduce", "is not allowed", "men", "mean, max, last", "mean"))
    a.yaml:3: objective.reduce: is not allowed; given 'men'; allowed: mean, max, last; did you mean mean?
    """

    where: str
    key: str
    message: str
    given: Any = ABSENT
    allowed: str | None = None
    nearest: str | None = None

    def __str__(self) -> str:
        # The given value is left out where the message begins or ends with it.
        subject = f"{self.where}: {self.key}: " if self.key else f"{self.where}: "
        parts = [subject + self.message]
        given = ABSENT if self.given is ABSENT else format_value(self.given)
        begins = self.message.startswith((f"{self.given!r} ", f"{given} "))
        if given is not ABSENT and not (begins or self.message.endswith(f" {self.given!r}")):
            parts.append(f"given {given}")
        if self.allowed is not None:
            parts.append(f"allowed: {self.allowed}")
        if self.nearest is not None:
            parts.append(f"did you mean {self.nearest}?")
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
    # A long text is no misspelt name, and difflib is slow on it.
    if not isinstance(given, str) or len(given) > 200:
        return None
    name_by_folded = {name.casefold(): name for name in names}
    matches = difflib.get_close_matches(given.casefold(), name_by_folded, n=1, cutoff=cutoff)
    return name_by_folded[matches[0]] if matches else None


SECRET_KEY = "notify"  # its value is never shown: the address of a webhook is a secret
MAX_REPETITIONS = 10  # listed problems of a kind
_VARYING = re.compile(r"""'[^']*'|"[^"]*"|\([^)]*\)|\{.*\}|\[.*\]|-?\d[\d.e+-]*""")  # names and values in a message


@dataclass(frozen=True)
class Place:
    """A line of a file, or a --set override. Prints as `file.yaml:12` or `--set key=value`."""

    source: str
    line: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


def join_address(address: str, part: str | int) -> str:
    """Return the address of an item inside the value at `address`: an index of a list, or a key of a mapping."""
    if isinstance(part, int):
        return f"{address}[{part}]"
    if not part.isprintable() or len(part) > 200:
        part = repr(part[:200])
    return f"{address}.{part}" if address else part


def get_outer_address(address: str) -> str:
    """Return the address one level up; '' for a top-level key."""
    cut = max(address.rfind("."), address.rfind("["))
    return address[:cut] if cut > 0 else ""


def list_outer_addresses(address: str) -> Iterator[str]:
    """Yield the addresses of all outer values, the nearest first."""
    while address := get_outer_address(address):
        yield address


def is_within(address: str, ancestor: str) -> bool:
    """Return whether an address equals `ancestor` or is inside it."""
    return address.startswith(ancestor) and (len(address) == len(ancestor) or address[len(ancestor)] in ".[")


class Findings:
    """The problems of a file, each with the place of its address.

    A value is doubtful if it could not be read or was replaced; problems that follow from it are dropped. `places` has
    the place of each address, `notes` has messages that are not problems.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.places: dict[str, Place] = {}
        self._anchors: set[str] = set()
        self._problems: dict[tuple[Place, str, str], FileProblem] = {}
        self._doubtful: set[str] = set()
        self._partly_doubtful: set[str] = set()
        self.notes: list[str] = []

    def without_problems(self) -> "Findings":
        """Return findings with the same places and notes, but without problems."""
        findings = Findings(self.source)
        findings.places, findings.notes = dict(self.places), list(self.notes)
        return findings

    def find_place(self, address: str) -> Place:
        """Return the place of an address; of its nearest ancestor if the file does not have it."""
        # A missing key has no line, but the section around it has.
        while address and address not in self.places:
            address = get_outer_address(address)
        return self.places.get(address, Place(self.source, 1))

    def relocate(self, address: str, places: dict[str, Place]) -> None:
        """Replace the places at and below an address, after an override."""
        self.places = {old: place for old, place in self.places.items() if not is_within(old, address)} | places

    def add(
        self,
        address: str,
        message: str,
        *,
        given: Any = ABSENT,
        allowed: str | None = None,
        nearest: str | None = None,
        names: Iterable[str] | None = None,
        misspelt: Any = ABSENT,
        place: Place | None = None,
    ) -> None:
        """Record a problem, unless the value at its address is doubtful.

        names: the allowed names; the nearest to `misspelt`, by default to `given`, is suggested.
        """
        # A problem of a doubtful value follows from another problem, which is recorded already.
        if isinstance(given, list) and ABSENT in given:
            return
        if self._is_inside_doubtful(address):
            return

        if names is not None:
            names = tuple(names)
            allowed = allowed or ", ".join(names)
            nearest = nearest or find_nearest_name(given if misspelt is ABSENT else misspelt, names)
        if address == SECRET_KEY:
            given = ABSENT
        place = place or self.find_place(address)
        self._problems.setdefault(
            (place, address, message), FileProblem(str(place), address, message, given, allowed, nearest)
        )

    def report(self, problem: Any, address: str | None = None, place: Place | None = None) -> None:
        """Record a FileProblem, or a Problem of trainers, at `address` instead of its key if given."""
        details = {"given": problem.given, "allowed": problem.allowed, "nearest": problem.nearest}
        self.add(problem.key if address is None else address, problem.message, **details, place=place)

    def add_unreadable(self, address: str, message: str, *, given: Any = ABSENT, place: Place | None = None) -> None:
        """Record a problem of a value that cannot be read, and mark the value as doubtful."""
        self.add(address, message, given=given, place=place)
        self.mark_doubtful(address)

    def mark_doubtful(self, address: str) -> None:
        """Mark a value as doubtful, so that problems that follow from it are dropped."""
        if address:
            self._doubtful.add(address)
            self._partly_doubtful.update(list_outer_addresses(address))

    def is_doubtful(self, address: str) -> bool:
        """Return whether the value at an address, or a part of it, is doubtful."""
        return self._is_inside_doubtful(address) or address in self._partly_doubtful

    def mark_anchor(self, address: str) -> None:
        """Mark an address that has an anchor: the anchor is reported instead of the unknown key above it."""
        self._anchors.update((address, *list_outer_addresses(address)))

    def has_anchor(self, address: str) -> bool:
        """Return whether the value at an address, or a part of it, has an anchor."""
        return address in self._anchors

    def _is_inside_doubtful(self, address: str) -> bool:
        """Return whether the value at an address, or an outer value, is doubtful."""
        return address in self._doubtful or any(outer in self._doubtful for outer in list_outer_addresses(address))

    def note(self, place: Place, text: str) -> None:
        """Record a message for the user that is not a problem; repetitions are dropped."""
        if (line := f"{place}: {text}") not in self.notes:
            self.notes.append(line)

    @property
    def problems(self) -> tuple[FileProblem, ...]:
        """The problems so far: of the file by line, then of overrides; repetitions of a kind are counted."""

        def make_sort_key(entry: tuple[tuple[Place, str, str], FileProblem]) -> tuple[bool, int]:
            place = entry[0][0]
            return place.source != self.source, place.line or 0

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


def read_key(mapping: Any, dotted: str) -> Any:
    """Return the value at a dotted key of nested mappings, ABSENT if the key is missing."""
    for part in dotted.split("."):
        if not isinstance(mapping, dict) or part not in mapping:
            return ABSENT
        mapping = mapping[part]
    return mapping


def list_dotted_keys(mapping: Mapping[str, Any], prefix: str = "") -> Iterable[str]:
    """Yield every dotted key of nested mappings, also of the inner mappings themselves."""
    for key, value in mapping.items():
        dotted = f"{prefix}.{key}" if prefix else key
        yield dotted
        if isinstance(value, dict):
            yield from list_dotted_keys(value, dotted)


ENGINE_SECTIONS = ("task", "model", "training", "evaluation")
PROGRAM_SECTIONS = ("program", "config", "training", "evaluation")
SECTIONS = tuple(dict.fromkeys((*ENGINE_SECTIONS, *PROGRAM_SECTIONS)))
"""The open sections, whose keys the trainer checks; a key of the space is a section, or a dotted key inside it."""


def list_sections(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the open sections of a sweep file, which depend on whether it has a `program`."""
    return PROGRAM_SECTIONS if "program" in data else ENGINE_SECTIONS


KEY_PART = re.compile(r"[\w-]+")
SECTION_KEY = re.compile(rf"({'|'.join(SECTIONS)})(\.[\w-]+)*")
