"""A race over seeds: `search.racing` of a sweep file, and how many seeds each of its rounds has.

After Birattari et al. (2002), "A Racing Algorithm for Configuring Metaheuristics", and Lopez-Ibanez et al. (2016), "The
irace package: Iterated racing for automatic algorithm configuration", with a seed as the block.
"""

import math
from typing import Any, Literal

from pydantic import Field

from search_spaces.grammar.spec.strict import Strict

LEVEL = 0.05


class Racing(Strict):
    """After each round either a share of the configurations stays, or all that a test does not rule out."""

    first: int = Field(ge=1, description="Seeds of every configuration: those of the first round.")
    growth: float = Field(default=2.0, gt=1, description="A round ends with so many times the seeds of the one before.")
    keep: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="The share of the configurations of a round that stays: those with the best medians, and ties.",
    )
    test: Literal["friedman"] | None = Field(
        default=None,
        description="Instead of keep. friedman: all stay that Friedman's test over the seeds of a round and Conover's "
        "comparison with the best rank sum do not rule out; Wilcoxon's signed-rank test if there are two.",
    )
    level: float | None = Field(
        default=None, gt=0, lt=1, description=f"test only: the level of the test; null is {LEVEL}."
    )

    def next_count(self, count: int, total: int) -> int:
        """Return how many seeds the round after one with `count` seeds has, of `total` in all.

        Racing(first=2, keep=0.5, growth=1.5).next_count(3, 16) -> 5
        """
        return min(total, max(count + 1, math.ceil(round(self.growth * count, 6))))

    def count_kept(self, configurations: int) -> int:
        """Return how many of so many configurations stay at most, without ties: all of them for a test."""
        return configurations if self.keep is None else math.ceil(round(self.keep * configurations, 6))

    def resolved(self) -> dict[str, Any]:
        """Return what was given and the defaults that are read."""
        level = {"level": self.level or LEVEL} if self.test else {}
        return self.model_dump(exclude_none=True) | level
