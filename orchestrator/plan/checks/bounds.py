"""A domain checked against the field it fills: whatever is drawn from it must be a value that the field takes.

The verdict rests on every value that can be drawn, not on those that were: an end counts as drawn, because numbers are
rounded to six digits, and a normal domain without a clip reaches as far as its tails (`search.TAIL`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, floor
from statistics import NormalDist
from typing import Any

from orchestrator.plan.domains import TAIL, reach
from search_spaces.grammar.space.domains import Choice, Domain, Grid, IntUniform, Normal, is_number
from trainers.config.slots import Slot

TAIL_DEVIATIONS = -NormalDist().inv_cdf(TAIL)


@dataclass(frozen=True)
class Misfit:
    """One thing of a domain that its field does not take; `below` is its address under the domain's key."""

    below: str
    message: str
    given: Any
    allowed: str | None = None
    nearest: str | None = None


def misfits(domain: Domain, slot: Slot) -> Iterator[Misfit]:
    """Yield the values that a domain can draw and its field rejects."""
    if isinstance(domain, (Choice, Grid)):
        for index, value in enumerate(domain.values):
            for problem in slot.problems(value):
                nearest = problem.nearest or _nearest_allowed(slot, value)
                yield Misfit(f".{domain.kind}[{index}]", problem.message, value, problem.allowed, nearest)
    else:
        yield from _wrong_kind(domain, slot) or _ends_outside(domain, slot)


def _wrong_kind(domain: Any, slot: Slot) -> list[Misfit]:
    """Return the misfit of a domain that draws values of another type than the field's, or between its choices."""
    whole = isinstance(domain, IntUniform)
    said, nearest = "", "choice" if slot.choices is not None else None
    if whole and not slot.takes(0):
        said = "draws whole numbers"
    elif not whole and not slot.takes(0.5):
        said = "draws numbers that are not whole" if slot.takes(0) else "draws numbers"
        nearest = nearest or ("int_uniform" if slot.takes(0) else None)
    elif whole and slot.choices is not None:
        drawn = range(domain.low, domain.high + 1, domain.step)
        beside = next((value for value in drawn if value not in slot.choices), None)
        said = "" if beside is None else f"draws {beside}"
    elif slot.choices is not None:
        said = "draws any number between its ends"
    return [Misfit(f".{domain.kind}", said, domain.written()[domain.kind], slot.allowed, nearest)] if said else []


def _ends_outside(domain: Any, slot: Slot) -> Iterator[Misfit]:
    """Yield the ends of a numeric domain that lie outside the bounds of the field."""
    for index, end in enumerate(reach(domain)):
        if not slot.problems(end):
            continue
        if isinstance(domain, Normal):
            yield _tail(domain, slot, ("low", "high")[index], end)
        else:
            given, at = domain.written()[domain.kind][index], f".{domain.kind}[{index}]"
            yield Misfit(at, _outside(slot, end), given, slot.allowed, _nearest_allowed(slot, end))


def _tail(domain: Normal, slot: Slot, side: str, end: float) -> Misfit:
    nearest = _nearest_allowed(slot, end)
    if getattr(domain, side) == end:
        return Misfit(f".{side}", _outside(slot, end), end, slot.allowed, nearest)
    if _bound_exceeded(slot, domain.mean) == _bound_exceeded(slot, end):
        return Misfit(".normal[0]", "the mean is out of bounds", domain.mean, slot.allowed, nearest)
    way, beside = ("down", "below") if side == "low" else ("up", "above")
    said = f"draws {way} to {end:g}, {TAIL_DEVIATIONS:.3g} standard deviations {beside} the mean; clip it with {side}:"
    return Misfit(".normal", said, [domain.mean, domain.std], slot.allowed, nearest and f"{side}: {nearest}")


def _outside(slot: Slot, end: float) -> str:
    excluded = end in (slot.bounds["above"], slot.bounds["below"])
    return "is excluded, and can be drawn" if excluded else "is out of bounds"


def _bound_exceeded(slot: Slot, value: float) -> str | None:
    """Return the bound of the field that a number exceeds, if any."""
    bounds = slot.bounds
    beyond = {
        "low": bounds["low"] is not None and value < bounds["low"],
        "above": bounds["above"] is not None and value <= bounds["above"],
        "high": bounds["high"] is not None and value > bounds["high"],
        "below": bounds["below"] is not None and value >= bounds["below"],
    }
    return next((name for name, crossed in beyond.items() if crossed), None)


def _nearest_allowed(slot: Slot, value: Any) -> str | None:
    """Return the nearest number that the field accepts; beside an excluded bound one of six digits, none beside 0."""
    crossed = _bound_exceeded(slot, value) if is_number(value) else None
    bound = slot.bounds[crossed] if crossed else None
    if crossed is None or bound is None:
        return None
    inwards = 1 if crossed in ("low", "above") else -1
    excluded = crossed in ("above", "below")
    number: float
    if not slot.takes(0.5):
        number = inwards * (floor(inwards * bound) + 1 if excluded else ceil(inwards * bound))
    else:
        number = float(f"{bound + inwards * abs(bound) * 1e-5:.6g}") if excluded else float(bound)
    return None if slot.problems(number) else repr(number).removesuffix(".0")
