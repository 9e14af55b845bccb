"""Read from the recorded specification how the configurations of a sweep were drawn."""

import math
from collections.abc import Mapping
from typing import Any

from orchestrator.record.state.state import SweepState
from orchestrator.statistics.effects.design import Design, Kind
from search_spaces import Search
from search_spaces.grammar.domains import KINDS


def read_design(state: SweepState) -> Design:
    """Return the design of a sweep: which configurations are independent, for statistics."""
    # Find the draw of each configuration; the grid points of a draw share it.
    search = state.spec.get("search", {})
    domains = {key: domain_kind(domain) for key, domain in state.spec.get("space", {}).items()}
    grid = frozenset(key for key, kind in domains.items() if kind == "grid")
    points, draws = grid_size(state.spec), draws_by_number(state)
    draw = {name: draws[configuration.number] for name, configuration in state.configurations.items()}
    survivors = any(configuration.pruned_at is not None for configuration in state.configurations.values())

    # Statistics depend on the kind of the design.
    has_one_draw = len(grid) == len(domains) or (search.get("configurations") or 1) == 1
    kind: Kind = "grid_by_random" if points > 1 else "random"
    if search.get("sampler") == "listed" or (grid and has_one_draw):
        kind = "fixed"
    elif search.get("sampler") == "tpe":
        kind = "adaptive"
    return Design(kind=kind, draw=draw, grid=grid, survivors=survivors)


def draws_by_number(state: SweepState) -> dict[int, int]:
    """Return the draw of each configuration by its number.

    If the ledger does not record draws, configuration n is draw n // G at grid point n % G of the G grid points that
    the sweep began with.
    """
    points = grid_size(state.specs[0]) if state.specs else 1
    return {draw.number: draw.number // points if draw.draw is None else draw.draw for draw in state.draws.values()}


def domain_kind(domain: Any) -> str:
    """Return the kind of a resolved domain, such as "grid"; "listed" for None, a key of search.listed."""
    if domain is None:
        return "listed"
    return next((kind for kind in KINDS if isinstance(domain, Mapping) and kind in domain), "choice")


def grid_size(spec: Mapping[str, Any]) -> int:
    """Return the number of grid points of a resolved specification, 1 without a grid."""
    return math.prod(len(domain["grid"]) for domain in spec.get("space", {}).values() if domain_kind(domain) == "grid")


def planned_size(spec: Mapping[str, Any]) -> int:
    """Return the number of configurations of a resolved specification, with duplicates."""
    # Every draw, or listed configuration, is combined with every grid point.
    search = spec.get("search", {})
    draws = len(search.get("listed") or ()) or search.get("configurations") or 1
    return int(draws * grid_size(spec))


def count_planned(state: SweepState) -> int:
    """Return how many different configurations a sweep will have when all are drawn.

    Repetitions among future draws are not predicted.
    """
    return planned_size(state.spec) - len(state.draws) + len(state.configurations)


def count_informed(state: SweepState) -> int:
    """Return how many configurations an adaptive sampler drew using earlier scores."""
    finished = [configuration for configuration in state.configurations.values() if configuration.finished]
    failed = [configuration.number for configuration in finished if configuration.score is None]
    return Search.model_validate(state.spec["search"]).count_informed(len(state.draws), failed)
