"""What a claim is, and the words of its answers; the studies' own claims are in their modules.

An answer is `held` or `did not hold` where the whole 95 % interval lies on one side of no effect, else `not decided`;
it is NOT_TESTABLE where nothing was tested, because no seed has learned the task, for example.
It is about the scale of the sweep and no other.
"""

import math
from dataclasses import dataclass, field
from typing import Any

from orchestrator.studies.measures import Effect, Sweep

NOT_TESTABLE = "not testable at this size"


@dataclass(frozen=True, kw_only=True)
class Part:
    """One comparison of a claim: what was asked, the effect in words, and the answer.

    `again` has the same question put to other evaluations of the same members; `of` says to which ones.
    """

    asked: str
    effect: str
    answer: str
    of: str = ""
    again: "Part | None" = None


@dataclass(frozen=True, kw_only=True)
class Table:
    """Rows below a heading row, with a title that says what the numbers are."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[Any, ...]]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim, the sweep it was put to, and what came out.

    `parts[0]` is the claim itself, the others explain it; the first `shown` stand in the overview too.
    """

    letter: str
    says: str
    sweep: Sweep
    measured: str
    parts: list[Part]
    tables: list[Table] = field(default_factory=list)
    shown: int = 1


def within(effect: Effect, least: float = -math.inf, most: float = math.inf) -> str:
    """Held where the whole interval lies between `least` and `most`, did not hold where none of it does."""
    if math.isnan(effect.low):
        return "not decided"
    if least <= effect.low and effect.high <= most:
        return "held"
    return "did not hold" if effect.high < least or effect.low > most else "not decided"


def plain(effect: Effect) -> str:
    """An effect without signs, for ratios."""
    return str(effect).replace("+", "")


def short(effect: Effect) -> str:
    """Number and interval alone."""
    return str(effect).partition(",")[0] if math.isnan(effect.low) else str(effect).partition("]")[0] + "]"


def span(lengths: tuple[int, ...]) -> str:
    """(3, 4, 5) is `3 to 5`."""
    return str(lengths[0]) if len(lengths) == 1 else f"{lengths[0]} to {lengths[-1]}"
