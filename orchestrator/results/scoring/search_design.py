"""Read from the recorded specification how the configurations of a sweep were drawn."""

import math
from collections.abc import Mapping
from typing import Any

from orchestrator.record.files.searched_values import list_searched_keys
from orchestrator.record.state.lineage import DRAWN, IMPORTED
from orchestrator.record.state.state import SweepState
from orchestrator.statistics.effects.design import Design, Kind
from search_spaces import Search
from search_spaces.grammar.domains import DOMAINS


def read_design(state: SweepState) -> Design:
    """Return the design of a sweep, which tells statistics what is independent."""
    # All grid points of a draw share its drawn values, so they are not independent.
    search = state.spec.get("search", {})
    domains = {key: get_domain_kind(domain) for key, domain in state.spec.get("space", {}).items()}
    grid = frozenset(key for key, kind in domains.items() if kind == "grid")
    draw_by_number = map_draws(state)
    draws = {
        config_id: draw_by_number[configuration.number] for config_id, configuration in state.configurations.items()
    }
    survivors = any(configuration.pruned_at is not None for configuration in state.configurations.values())

    # With a single draw, or a list not said to be drawn, configurations are not a random sample; only seeds are.
    has_one_draw = len(grid) == len(domains) or (search.get("configurations") or 1) == 1
    kind: Kind = "grid_by_random" if count_grid_points(state.spec) > 1 else "random"
    is_fixed_list = search.get("sampler") == "listed" and not _was_drawn_elsewhere(state)
    if is_fixed_list or (grid and has_one_draw):
        kind = "fixed"
    elif search.get("sampler") == "tpe":
        kind = "adaptive"
    return Design(kind=kind, draws=draws, grid=grid, survivors=survivors)


def read_domain_kinds(state: SweepState) -> dict[str, str]:
    """Return the kind of domain of every searched key, such as "grid"; "drawn" for values that were drawn elsewhere."""
    space, listed_kind = state.spec.get("space", {}), DRAWN if _was_drawn_elsewhere(state) else "listed"
    return {key: get_domain_kind(space[key]) if key in space else listed_kind for key in list_searched_keys(state)}


def _was_drawn_elsewhere(state: SweepState) -> bool:
    """Return whether the configurations are imported ones that were drawn at random."""
    return bool(state.provenance.get(IMPORTED, {}).get(DRAWN))


def map_draws(state: SweepState) -> dict[int, int]:
    """Return the draw of each configuration by its number.

    If the ledger does not record draws, configuration n is draw n // G at grid point n % G of the G grid points that
    the sweep began with.
    """
    points = count_grid_points(state.specs[0]) if state.specs else 1
    return {
        draw.number: draw.number // points if draw.draw_index is None else draw.draw_index
        for draw in state.draws.values()
    }


def get_domain_kind(domain: Any) -> str:
    """Return the kind of a resolved domain, such as "grid"."""
    return next((kind for kind in DOMAINS if isinstance(domain, Mapping) and kind in domain), "choice")


def count_grid_points(spec: Mapping[str, Any]) -> int:
    """Return the number of grid points of a resolved specification, 1 without a grid."""
    return math.prod(
        len(domain["grid"]) for domain in spec.get("space", {}).values() if get_domain_kind(domain) == "grid"
    )


def count_specified(spec: Mapping[str, Any]) -> int:
    """Return the number of configurations of a resolved specification, with duplicates.

    Every draw, or listed configuration, is combined with every grid point.
    """
    search = spec.get("search", {})
    draws = len(search.get("listed") or ()) or search.get("configurations") or 1
    return int(draws * count_grid_points(spec))


def count_planned(state: SweepState) -> int:
    """Return how many different configurations a sweep will have when all are drawn.

    Repetitions among future draws are not predicted.
    """
    return count_specified(state.spec) - len(state.draws) + len(state.configurations)


def count_informed(state: SweepState) -> int:
    """Return how many configurations an adaptive sampler drew using earlier scores."""
    finished_configurations = [
        configuration for configuration in state.configurations.values() if configuration.is_scored
    ]
    failed = [configuration.number for configuration in finished_configurations if configuration.score is None]
    return Search.model_validate(state.spec["search"]).count_informed(len(state.draws), failed)
