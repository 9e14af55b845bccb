"""A domain checked against the field it fills: whatever is drawn from it must be a value that the field takes.

The verdict rests on every value that can be drawn, not on those that were: an end counts as drawn, because numbers are
rounded to six digits, and a normal domain without a clip reaches as far as its tails (`domains.TAIL`).
"""

import operator
from collections.abc import Iterator
from dataclasses import replace
from math import ceil, floor
from statistics import NormalDist
from typing import Any

from orchestrator.plan.domains import TAIL, find_range
from search_spaces.grammar.domains import Choice, Domain, Grid, IntUniform, Normal, is_number
from trainers.config.slots import Slot
from trainers.errors import Problem

TAIL_DEVIATIONS = -NormalDist().inv_cdf(TAIL)


def find_misfits(domain: Domain, slot: Slot) -> Iterator[Problem]:
    """Yield the values that a domain can draw and its field rejects, each at its address below the domain's key."""
    if isinstance(domain, (Choice, Grid)):
        for index, value in enumerate(domain.values):
            for problem in slot.problems(value):
                nearest = problem.nearest or _find_nearest_allowed(slot, value)
                yield replace(problem, key=f".{domain.kind}[{index}]", given=value, nearest=nearest)
    else:
        yield from _find_wrong_kind(domain, slot) or _find_ends_outside(domain, slot)


def _make_misfit(slot: Slot, below: str, message: str, given: Any, nearest: str | None) -> Problem:
    return Problem(key=below, message=message, given=given, allowed=slot.allowed, nearest=nearest)


def _find_wrong_kind(domain: Any, slot: Slot) -> list[Problem]:
    """Return the misfit of a domain that draws values of another type than the field's, or between its choices."""
    is_whole = isinstance(domain, IntUniform)
    message, nearest = "", "choice" if slot.choices is not None else None
    if is_whole and not slot.accepts(0):
        message = "draws whole numbers"
    elif not is_whole and not slot.accepts(0.5):
        message = "draws numbers that are not whole" if slot.accepts(0) else "draws numbers"
        nearest = nearest or ("int_uniform" if slot.accepts(0) else None)
    elif is_whole and slot.choices is not None:
        drawn = range(domain.low, domain.high + 1, domain.step)
        foreign = next((value for value in drawn if value not in slot.choices), None)
        message = "" if foreign is None else f"draws {foreign}"
    elif slot.choices is not None:
        message = "draws any number between its ends"
    return [_make_misfit(slot, f".{domain.kind}", message, domain.to_plain()[domain.kind], nearest)] if message else []


def _find_ends_outside(domain: Any, slot: Slot) -> Iterator[Problem]:
    """Yield the ends of a numeric domain that lie outside the bounds of the field."""
    for index, end in enumerate(find_range(domain)):
        if not slot.problems(end):
            continue
        nearest = _find_nearest_allowed(slot, end)
        excluded = end in (slot.bounds["above"], slot.bounds["below"])
        outside = "is excluded, and can be drawn" if excluded else "is out of bounds"
        if not isinstance(domain, Normal):
            given = domain.to_plain()[domain.kind][index]
            yield _make_misfit(slot, f".{domain.kind}[{index}]", outside, given, nearest)
            continue
        side, way, relation = (("low", "down", "below"), ("high", "up", "above"))[index]
        if getattr(domain, side) == end:
            yield _make_misfit(slot, f".{side}", outside, end, nearest)
        elif _find_exceeded_bound(slot, domain.mean) == _find_exceeded_bound(slot, end):
            yield _make_misfit(slot, ".normal[0]", "the mean is out of bounds", domain.mean, nearest)
        else:
            tail = f"{TAIL_DEVIATIONS:.3g} standard deviations {relation} the mean"
            message = f"draws {way} to {end:g}, {tail}; clip it with {side}:"
            yield _make_misfit(slot, ".normal", message, [domain.mean, domain.std], nearest and f"{side}: {nearest}")


def _find_exceeded_bound(slot: Slot, value: float) -> str | None:
    """Return the bound of the field that a number exceeds, if any."""
    exceeds = {"low": operator.lt, "above": operator.le, "high": operator.gt, "below": operator.ge}
    bounds = ((name, bound) for name in exceeds if (bound := slot.bounds[name]) is not None)
    return next((name for name, bound in bounds if exceeds[name](value, bound)), None)


def _find_nearest_allowed(slot: Slot, value: Any) -> str | None:
    """Return the nearest number that the field accepts, None without one.

    Next to an excluded bound it is rounded to six digits; next to an excluded 0 there is none.
    """
    crossed = _find_exceeded_bound(slot, value) if is_number(value) else None
    bound = slot.bounds[crossed] if crossed else None
    if crossed is None or bound is None:
        return None
    inwards = 1 if crossed in ("low", "above") else -1
    excluded = crossed in ("above", "below")
    number: float
    if not slot.accepts(0.5):
        number = inwards * (floor(inwards * bound) + 1 if excluded else ceil(inwards * bound))
    else:
        number = float(f"{bound + inwards * abs(bound) * 1e-5:.6g}") if excluded else float(bound)
    return None if slot.problems(number) else repr(number).removesuffix(".0")
