"""How configurations came about, as far as statistics must know: which of them are independent of which."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

Kind = Literal["random", "grid_by_random", "fixed", "adaptive"]

ADAPTIVE = "tpe chose later configurations by the scores of earlier ones, which no interval or test here allows for"


@dataclass(frozen=True, kw_only=True)
class Design:
    """How the configurations of a sweep came about; the unit is what is independent, so what is counted and resampled.

    random          each configuration is one draw of its own: the unit is the configuration
    grid_by_random  every draw is tried at every grid point: the unit is the draw, grid points are compared within it
    fixed           grid points of one draw or none, or a list: nothing was drawn, and configurations share data and
                    initial weights seed by seed. The unit is the seed, and configurations are compared within it
    adaptive        later draws follow earlier scores: nothing is independent

    `draw` has the draw of each configuration, `grid` the dotted keys that are tried and not drawn.
    """

    kind: Kind
    draw: Mapping[str, int] = field(default_factory=dict)
    grid: frozenset[str] = frozenset()

    @classmethod
    def random(cls, configurations: Iterable[str]) -> Self:
        """Configurations that were drawn one by one."""
        return cls(kind="random", draw={name: number for number, name in enumerate(configurations)})

    @property
    def unit(self) -> str:
        """What n counts and what intervals are over, in the plural."""
        return {"grid_by_random": "draws", "fixed": "seeds"}.get(self.kind, "configurations")

    @property
    def units_are_independent(self) -> bool:
        """Whether there can be intervals and tests at all."""
        return self.kind != "adaptive"

    def compared(self, key: str) -> bool:
        """Whether the values of a key are compared within units; else every unit has one value of it."""
        return self.kind == "fixed" or (self.kind == "grid_by_random" and key in self.grid)

    def unit_of(self, config_id: str, seed: int) -> Hashable:
        """The unit that a member belongs to."""
        if self.kind == "fixed":
            return seed
        return self.draw.get(config_id, config_id) if self.kind == "grid_by_random" else config_id

    def grid_point(self, values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
        """The grid point of a configuration with these values, to compare and to sort."""
        return tuple(sorted((key, repr(value)) for key, value in values.items() if key in self.grid))
