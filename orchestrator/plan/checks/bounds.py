"""Check a domain against its field: the field must accept every value that can be drawn.

The ends of a domain count as values, because numbers are rounded to six digits; a normal domain without a clip reaches
to its tails (`optuna_distributions.TAIL_QUANTILE`).
"""

import operator
from collections.abc import Iterator
from dataclasses import replace
from math import ceil, floor
from statistics import NormalDist
from typing import Any

from orchestrator.plan.optuna_distributions import TAIL_QUANTILE, find_range
from search_spaces.grammar.domains import Choice, Domain, Grid, IntUniform, Normal, is_number
from trainers.errors import Problem
from trainers.settings.fields_by_key import FieldAtKey

TAIL_DEVIATIONS = -NormalDist().inv_cdf(TAIL_QUANTILE)


def find_domain_problems(domain: Domain, field: FieldAtKey) -> Iterator[Problem]:
    """Yield a problem for each value of a domain that the field rejects; keys are relative to the domain's key."""
    if isinstance(domain, (Choice, Grid)):
        for index, value in enumerate(domain.values):
            for problem in field.find_problems(value):
                nearest = problem.nearest or _find_nearest_allowed(field, value)
                yield replace(problem, key=f".{domain.kind}[{index}]", given=value, nearest=nearest)
    else:
        yield from _list_type_problems(domain, field) or _find_end_problems(domain, field)


def _make_problem(field: FieldAtKey, subkey: str, message: str, given: Any, nearest: str | None) -> Problem:
    """Return the problem of a value that a field rejects, with the values that it allows."""
    return Problem(key=subkey, message=message, given=given, allowed=field.allowed, nearest=nearest)


def _list_type_problems(domain: Any, field: FieldAtKey) -> list[Problem]:
    """Return the problem of a domain whose type differs from its field's, or whose values the field does not offer."""
    # A field of choices suggests a choice; an integer field suggests int_uniform in place of uniform.
    is_whole = isinstance(domain, IntUniform)
    message, nearest = "", "choice" if field.choices is not None else None
    if is_whole and not field.accepts(0):
        message = "draws whole numbers"
    elif not is_whole and not field.accepts(0.5):
        message = "draws fractions" if field.accepts(0) else "draws numbers"
        nearest = nearest or ("int_uniform" if field.accepts(0) else None)
    elif is_whole and field.choices is not None:
        drawn_values = range(domain.low, domain.high + 1, domain.step)
        excluded_value = next((value for value in drawn_values if value not in field.choices), None)
        message = "" if excluded_value is None else f"draws {excluded_value}"
    elif field.choices is not None:
        message = "draws any number between its ends"
    return (
        [_make_problem(field, f".{domain.kind}", message, domain.to_plain()[domain.kind], nearest)] if message else []
    )


def _find_end_problems(domain: Any, field: FieldAtKey) -> Iterator[Problem]:
    """Yield a problem for each end of a numeric domain that the field rejects."""
    for index, end in enumerate(find_range(domain)):
        if not field.find_problems(end):
            continue
        nearest = _find_nearest_allowed(field, end)
        is_excluded = end in (field.bounds["above"], field.bounds["below"])
        outside = "is excluded, and can be drawn" if is_excluded else "is out of bounds"
        if not isinstance(domain, Normal):
            given = domain.to_plain()[domain.kind][index]
            yield _make_problem(field, f".{domain.kind}[{index}]", outside, given, nearest)
            continue

        # The end of a normal domain is not in the file: its clip, its mean or its tail is at fault.
        side, direction, relation = (("low", "down", "below"), ("high", "up", "above"))[index]
        if getattr(domain, side) == end:
            yield _make_problem(field, f".{side}", outside, end, nearest)
        elif _find_exceeded_bound(field, domain.mean) == _find_exceeded_bound(field, end):
            yield _make_problem(field, ".normal[0]", "the mean is out of bounds", domain.mean, nearest)
        else:
            tail = f"{TAIL_DEVIATIONS:.3g} standard deviations {relation} the mean"
            message = f"draws {direction} to {end:g}, {tail}; clip it with {side}:"
            yield _make_problem(field, ".normal", message, [domain.mean, domain.std], nearest and f"{side}: {nearest}")


def _find_exceeded_bound(field: FieldAtKey, value: float) -> str | None:
    """Return the name of the bound that a number exceeds; None if it is within the bounds."""
    exceeds = {"low": operator.lt, "above": operator.le, "high": operator.gt, "below": operator.ge}
    bounds = ((name, bound) for name in exceeds if (bound := field.bounds[name]) is not None)
    return next((name for name, bound in bounds if exceeds[name](value, bound)), None)


def _find_nearest_allowed(field: FieldAtKey, value: Any) -> str | None:
    """Return the nearest number that the field accepts; None if there is none.

    Next to an excluded bound it has six digits; next to an excluded 0 there is none.
    """
    exceeded = _find_exceeded_bound(field, value) if is_number(value) else None
    bound = field.bounds[exceeded] if exceeded else None
    if exceeded is None or bound is None:
        return None

    # Next to an excluded bound, step by 1 for integers, else by 1e-5 of the bound, because draws have six digits.
    inward_sign = 1 if exceeded in ("low", "above") else -1
    is_excluded = exceeded in ("above", "below")
    number: float
    if not field.accepts(0.5):
        number = inward_sign * (floor(inward_sign * bound) + 1 if is_excluded else ceil(inward_sign * bound))
    else:
        number = float(f"{bound + inward_sign * abs(bound) * 1e-5:.6g}") if is_excluded else float(bound)
    return None if field.find_problems(number) else repr(number).removesuffix(".0")
