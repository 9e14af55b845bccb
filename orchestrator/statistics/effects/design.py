"""The design of a sweep: whether its configurations, draws or seeds are the independent units."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

Kind = Literal["random", "grid_by_random", "fixed", "adaptive"]

ADAPTIVE = "tpe chose later configurations by the scores of earlier ones, so no interval or test is valid"
SURVIVORS = "these configurations survived the rungs by their scores, so no interval or test is valid"


@dataclass(frozen=True, kw_only=True)
class Design:
    """How the configurations of a sweep were drawn. Units are independent of each other; n counts units.

    random          each configuration is an independent draw, which is the unit
    grid_by_random  every draw is combined with every grid point: the unit is the draw, grid points are compared within
                    each draw
    fixed           grid points of at most one draw, or a list: the unit is the seed, configurations are compared
                    within each seed
    adaptive        later draws depend on earlier scores: nothing is independent

    `draws` has the draw of each configuration, `grid` the dotted keys of the grid. `survivors` is True if rungs
    pruned the other configurations; this selection makes keys correlate with scores, so nothing is independent.
    """

    kind: Kind
    draws: Mapping[str, int] = field(default_factory=dict)
    grid: frozenset[str] = frozenset()
    survivors: bool = False

    @classmethod
    def random(cls, configurations: Iterable[str]) -> Self:
        """Return the design of independent configurations."""
        return cls(kind="random", draws={config_id: number for number, config_id in enumerate(configurations)})

    @property
    def unit(self) -> str:
        """The name of the units, in the plural."""
        return {"grid_by_random": "draws", "fixed": "seeds"}.get(self.kind, "configurations")

    @property
    def units_are_independent(self) -> bool:
        """Whether intervals and tests are valid."""
        return self.dependence is None

    @property
    def dependence(self) -> str | None:
        """Why no interval or test is valid; None if they are."""
        return ADAPTIVE if self.kind == "adaptive" else SURVIVORS if self.survivors else None

    def compares_within_units(self, key: str) -> bool:
        """Return whether the values of a key are compared within each unit, because units have several of them."""
        return self.kind == "fixed" or (self.kind == "grid_by_random" and key in self.grid)

    def get_unit(self, config_id: str, seed: int) -> Hashable:
        """Return the unit of a member."""
        if self.kind == "fixed":
            return seed
        return self.draws.get(config_id, config_id) if self.kind == "grid_by_random" else config_id

    def get_grid_point(self, values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
        """Return the grid point of a configuration as sorted (key, text of the value) pairs."""
        return tuple(sorted((key, repr(value)) for key, value in values.items() if key in self.grid))
