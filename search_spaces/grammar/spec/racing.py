"""A race over seeds: `search.racing` of a sweep file, how many seeds its rounds have, and the rungs of the first round.

After Birattari et al. (2002), "A Racing Algorithm for Configuring Metaheuristics", and Lopez-Ibanez et al. (2016), "The
irace package: Iterated racing for automatic algorithm configuration", with a seed as the block.
"""

import math
from typing import Any, Literal, NamedTuple

from pydantic import Field

from search_spaces.grammar.spec.values import Strict

LEVEL = 0.05


class Rung(NamedTuple):
    """A step at which configurations are compared, and the earlier step from which their improvement counts."""

    step: int
    since: int


class Rungs(Strict):
    """Successive halving along training: at each rung a share of the configurations trains on, the others are pruned.

    After Jamieson and Talwalkar (2016), "Non-stochastic Best Arm Identification and Hyperparameter Optimization".
    """

    first: int = Field(
        ge=1, description="The step of the first rung: a multiple of evaluation.every and less than training.steps."
    )
    growth: float = Field(
        default=3.0,
        gt=1,
        description="Each rung is at this many times the step of the one before, rounded up to an evaluation.",
    )
    keep: float = Field(
        gt=0, lt=1, description="The share of the configurations of a rung that trains on: the best medians, and ties."
    )
    guard: bool = Field(
        default=True,
        description="Whether configurations train on, too, that still improve by more than their seeds differ.",
    )

    def rungs(self, every: int, steps: int) -> tuple[Rung, ...]:
        """Return the rungs of a training with `steps` steps, evaluated every `every` steps.

        Improvement counts from the rung before; at the first rung from the last evaluation in the first half.

        Rungs(first=300, keep=0.5).rungs(100, 3000) -> (Rung(300, 100), Rung(900, 300), Rung(2700, 900))
        """
        found = [Rung(self.first, self.first // 2 // every * every)]
        while (evaluations := found[-1].step // every) * every < steps:
            step = max(evaluations + 1, math.ceil(round(min(self.growth * evaluations, steps), 6))) * every
            found.append(Rung(step, found[-1].step))
        return tuple(found[:-1])

    def count_kept(self, configurations: int) -> int:
        """Return how many configurations train on, not counting ties and configurations that the guard keeps."""
        return count_share(self.keep, configurations)


def count_share(share: float, configurations: int) -> int:
    """Return a share of the configurations, rounded up: at least one."""
    return max(1, math.ceil(round(share * configurations, 6)))


class Racing(Strict):
    """After each round either a share of the configurations stays, or all that a test does not rule out."""

    first: int = Field(ge=1, description="Seeds of every configuration: those of the first round.")
    growth: float = Field(default=2.0, gt=1, description="Seeds at the end of a round over those of the one before.")
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
    steps: Rungs | None = Field(
        default=None,
        description="Prunes configurations of the first round that are behind in the course of training; null trains "
        "all of them to the end.",
    )

    def next_count(self, count: int, total: int) -> int:
        """Return the number of seeds of the round after one with `count` seeds, at most `total`.

        Racing(first=2, keep=0.5, growth=1.5).next_count(3, 16) -> 5
        """
        return min(total, max(count + 1, math.ceil(round(min(self.growth * count, total), 6))))

    def count_kept(self, configurations: int) -> int:
        """Return how many configurations stay at most, not counting ties; all of them if `keep` is None."""
        return configurations if self.keep is None else count_share(self.keep, configurations)

    def resolved(self) -> dict[str, Any]:
        """Return the given values and the defaults that are read."""
        level = {"level": self.level or LEVEL} if self.test else {}
        return self.model_dump(exclude_none=True) | level
