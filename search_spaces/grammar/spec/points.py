"""The grid points of a space, and the drawn values that are active."""

from collections.abc import Mapping
from itertools import product
from typing import Any

from search_spaces.grammar.problems.findings import lookup
from search_spaces.grammar.space.domains import Grid, plain, value_key
from search_spaces.grammar.spec.spec import SweepSpec


def grid_points(spec: SweepSpec) -> list[dict[str, Any]]:
    """Return every combination of grid values, the last key varying fastest; [{}] if there is no grid."""
    grids = {key: domain.values for key, domain in spec.space.items() if isinstance(domain, Grid)}
    return [dict(zip(grids, map(plain, values), strict=True)) for values in product(*grids.values())]


def active_values(spec: SweepSpec, drawn: Mapping[str, Any]) -> dict[str, Any]:
    """Return the drawn values whose `when` conditions hold, in file order; other keys keep their fixed values.

    A condition on a key that is not active itself uses its fixed value.
    """
    sections = {section: getattr(spec, section) for section in spec.sections}
    known: dict[str, bool] = {}

    def active(key: str) -> bool:
        if key not in known:
            known[key] = key in drawn and all(
                value_key(drawn[other] if other in spec.space and active(other) else lookup(sections, other))
                in {value_key(value) for value in values}
                for other, values in spec.space[key].when.items()
            )
        return known[key]

    return {key: drawn[key] for key in spec.space if active(key)}
