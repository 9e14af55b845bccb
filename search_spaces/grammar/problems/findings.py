"""Where every key of a sweep file was written, and the problems found so far.

A key's *address* is its dotted path, with list items in brackets: `objective.lengths[1]`, `space.training.clip.when`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from search_spaces.grammar.problems.errors import ABSENT, Problem, SweepFileError

MOST_ALIKE = 10  # problems of one kind that are written out
_VARYING = re.compile(r"""'[^']*'|"[^"]*"|\([^)]*\)|\{.*\}|\[.*\]|-?\d[\d.e+-]*""")  # what names a place or a value


@dataclass(frozen=True)
class Place:
    """One line of a file, or one --set override. Prints as `file.yaml:12` or `--set key=value`."""

    source: str
    line: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


def child(address: str, step: str | int) -> str:
    """The address of an item of a list (int) or of a mapping (str)."""
    if isinstance(step, int):
        return f"{address}[{step}]"
    if not step.isprintable() or len(step) > 200:
        step = repr(step[:200])
    return f"{address}.{step}" if address else step


def parent(address: str) -> str:
    """The address one level up; '' for a top-level key."""
    cut = max(address.rfind("."), address.rfind("["))
    return address[:cut] if cut > 0 else ""


def _above(address: str) -> Iterator[str]:
    while address := parent(address):
        yield address


def within(address: str, ancestor: str) -> bool:
    """Whether an address is `ancestor` or lies below it."""
    return address.startswith(ancestor) and (len(address) == len(ancestor) or address[len(ancestor)] in ".[")


class Findings:
    """Collects problems and knows the place of every address, so that a problem needs to name its key only."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.places: dict[str, Place] = {}
        self._referred: set[str] = set()
        self._found: dict[tuple[Place, str, str], Problem] = {}
        self._doubtful: set[str] = set()
        self._partly_doubtful: set[str] = set()
        self.notes: list[str] = []

    def without_problems(self) -> "Findings":
        """The same places, and nothing found yet."""
        fresh = Findings(self.source)
        fresh.places, fresh.notes = dict(self.places), list(self.notes)
        return fresh

    def place(self, address: str) -> Place:
        """The place of an address, or of its nearest ancestor that was written."""
        while address and address not in self.places:
            address = parent(address)
        return self.places.get(address, Place(self.source, 1))

    def relocate(self, address: str, places: dict[str, Place]) -> None:
        """Forget the places at and below an address and take new ones (an override has replaced it)."""
        self.places = {old: place for old, place in self.places.items() if not within(old, address)} | places

    def add(
        self,
        address: str,
        message: str,
        *,
        given: Any = ABSENT,
        allowed: str | None = None,
        nearest: str | None = None,
        place: Place | None = None,
    ) -> None:
        """Record a problem, unless its value is already in doubt, in whole or in part."""
        if isinstance(given, list) and ABSENT in given:
            return
        if self._doubted_above(address):
            return
        place = place or self.place(address)
        self._found.setdefault(
            (place, address, message), Problem(str(place), address, message, given, allowed, nearest)
        )

    def unreadable(self, address: str, message: str, *, given: Any = ABSENT, place: Place | None = None) -> None:
        """Record a problem of the text itself and keep silent about what follows from it."""
        self.add(address, message, given=given, place=place)
        self.doubt(address)

    def doubt(self, address: str) -> None:
        """What was written there is not known: keep silent about what follows from it."""
        if address:
            self._doubtful.add(address)
            self._partly_doubtful.update(_above(address))

    def doubts(self, address: str) -> bool:
        """Whether the value at an address is in doubt, in whole or in part."""
        return self._doubted_above(address) or address in self._partly_doubtful

    def refer(self, address: str) -> None:
        """What is written there stands there to be referred to: a problem of its own, and no reason for others."""
        self._referred.update((address, *_above(address)))

    def referred(self, address: str) -> bool:
        """Whether the value at an address, or a part of it, stands there to be referred to."""
        return address in self._referred

    def _doubted_above(self, address: str) -> bool:
        return address in self._doubtful or any(above in self._doubtful for above in _above(address))

    def note(self, place: Place, text: str) -> None:
        """Keep something that the user should know and that is not wrong; once, however often it is said."""
        if (line := f"{place}: {text}") not in self.notes:
            self.notes.append(line)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems so far: the file's in line order, then those of overrides; of many alike the first few, and
        how many more there are."""

        def order(found: tuple[tuple[Place, str, str], Problem]) -> tuple[bool, int]:
            place = found[0][0]
            return place.source != self.source, place.line or 0

        return tuple(_few_of_each([problem for _, problem in sorted(self._found.items(), key=order)]))

    def raise_any(self, unchecked: str = "") -> None:
        """Raise SweepFileError if anything was found; `unchecked` says what was not looked at then."""
        if self._found:
            raise SweepFileError(self.problems, unchecked)


def _few_of_each(problems: list[Problem]) -> Iterator[Problem]:
    """Of problems whose messages differ in names and numbers only: the first few, then one that counts the rest."""
    counts = Counter(_kind(problem) for problem in problems)
    shown: Counter[str] = Counter()
    for problem in problems:
        kind = _kind(problem)
        shown[kind] += 1
        if counts[kind] <= MOST_ALIKE + 1 or shown[kind] <= MOST_ALIKE:
            yield problem
        elif shown[kind] == MOST_ALIKE + 1:
            yield Problem(problem.where, "", f"and {counts[kind] - MOST_ALIKE:,} more like it: {problem.message}")


def _kind(problem: Problem) -> str:
    return _VARYING.sub("", problem.message)


def lookup(mapping: Any, dotted: str) -> Any:
    """The value at a dotted key of nested mappings, or ABSENT."""
    for step in dotted.split("."):
        if not isinstance(mapping, dict) or step not in mapping:
            return ABSENT
        mapping = mapping[step]
    return mapping


def leaves(mapping: dict[str, Any], prefix: str = "") -> Iterable[str]:
    """Every dotted key of nested mappings, inner ones included."""
    for key, value in mapping.items():
        dotted = f"{prefix}.{key}" if prefix else key
        yield dotted
        if isinstance(value, dict):
            yield from leaves(value, dotted)


SECTIONS = ("task", "model", "training", "evaluation")
"""The open sections: their keys belong to trainers, which checks them; space keys start with one of them."""

STEP = re.compile(r"[\w-]+")
SECTION_KEY = re.compile(rf"({'|'.join(SECTIONS)})(\.[\w-]+)+")
