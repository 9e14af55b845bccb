"""How a sweep's configurations came about, from its recorded specification and their numbers."""

import math
from collections.abc import Mapping
from typing import Any

from orchestrator.record.state.state import SweepState
from orchestrator.statistics.design import Design

KINDS = ("choice", "grid", "uniform", "log_uniform", "one_minus_log_uniform", "int_uniform", "normal")


def design_of(state: SweepState) -> Design:
    """The design of a sweep of any version: configuration number n is draw n // G at grid point n % G of G."""
    search = state.spec.get("search", {})
    domains = {key: domain_kind(one) for key, one in state.spec.get("space", {}).items()}
    grid = frozenset(key for key, kind in domains.items() if kind == "grid")
    points = grid_size(state.spec)
    draw = {name: one.number // points for name, one in state.configurations.items()}
    one_draw = len(grid) == len(domains) or (search.get("configurations") or 1) == 1
    if search.get("sampler") == "listed" or (grid and one_draw):
        return Design(kind="fixed", draw=draw, grid=grid)
    if search.get("sampler") == "tpe":
        return Design(kind="adaptive", draw=draw, grid=grid)
    return Design(kind="grid_by_random" if points > 1 else "random", draw=draw, grid=grid)


def domain_kind(domain: Any) -> str:
    """The kind of a domain in a resolved specification: the key of its mapping that is not an option.

    A key without a domain has its values from search.listed.
    """
    if domain is None:
        return "listed"
    return next((kind for kind in KINDS if isinstance(domain, Mapping) and kind in domain), "choice")


def grid_size(spec: Mapping[str, Any]) -> int:
    """The number of grid points of a resolved specification, 1 without a grid."""
    return math.prod(len(domain["grid"]) for domain in spec.get("space", {}).values() if domain_kind(domain) == "grid")
