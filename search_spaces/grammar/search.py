"""The section `search` of a sweep file: the sampler, its draws, and the race over seeds.

Racing after Birattari et al. (2002), "A Racing Algorithm for Configuring Metaheuristics", and Lopez-Ibanez et al.
(2016), "The irace package: Iterated racing for automatic algorithm configuration", with a seed as the block.
"""

import math
from collections.abc import Collection
from typing import Any, Literal, NamedTuple

from pydantic import Field

from search_spaces.grammar.values import LARGEST_SEED, Listed, Strict

DEFAULT_LEVEL = 0.05


class Rung(NamedTuple):
    """A step at which configurations are compared; `since` is the earlier step from which improvement is measured."""

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
        description="The step of each rung over that of the previous rung, rounded up to an evaluation.",
    )
    keep: float = Field(
        gt=0, lt=1, description="The share of the configurations of a rung that trains on: the best medians, and ties."
    )
    guard: bool = Field(
        default=True,
        description="Whether configurations that still improve by more than their seeds differ train on as well.",
    )

    def list_rungs(self, every: int, steps: int) -> tuple[Rung, ...]:
        """Return the rungs of a training of `steps` steps, evaluated every `every` steps.

        Improvement is measured from the previous rung; at the first rung from the last evaluation in its first half.

        Rungs(first=300, keep=0.5).list_rungs(100, 3000) -> (Rung(300, 100), Rung(900, 300), Rung(2700, 900))
        """
        rungs = [Rung(self.first, self.first // 2 // every * every)]

        # Rounded before ceil: 1.1 * 10 is 11.000000000000002. Each rung is at least an evaluation after the last.
        while (evaluations := rungs[-1].step // every) * every < steps:
            step = max(evaluations + 1, math.ceil(round(min(self.growth * evaluations, steps), 6))) * every
            rungs.append(Rung(step, rungs[-1].step))
        return tuple(rungs[:-1])

    def count_kept(self, configurations: int) -> int:
        """Return how many configurations train on, without ties and configurations kept by the guard."""
        return count_share(self.keep, configurations)


def count_share(share: float, configurations: int) -> int:
    """Return the number of configurations in a share, rounded up, at least 1."""
    return max(1, math.ceil(round(share * configurations, 6)))


class Racing(Strict):
    """A race over seeds: after each round a share of the configurations stays, or all that a test does not rule out."""

    first: int = Field(ge=1, description="Seeds of every configuration in the first round.")
    growth: float = Field(
        default=2.0, gt=1, description="Seeds at the end of a round over those of the previous round."
    )
    keep: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="The share of the configurations of a round that stays: the best medians, and ties.",
    )
    test: Literal["friedman"] | None = Field(
        default=None,
        description="Replaces keep. friedman: configurations stay unless Friedman's test over the seeds of a round and "
        "Conover's comparison with the best rank sum rule them out; of two, Wilcoxon's signed-rank test decides.",
    )
    level: float | None = Field(
        default=None, gt=0, lt=1, description=f"test only: the level of the test; null is {DEFAULT_LEVEL}."
    )
    steps: Rungs | None = Field(
        default=None,
        description="Prunes configurations of the first round during training; null trains all of them to the end.",
    )

    def compute_next_seed_count(self, count: int, total: int) -> int:
        """Return the number of seeds in the round after a round with `count` seeds, at most `total`.

        Racing(first=2, keep=0.5, growth=1.5).compute_next_seed_count(3, 16) -> 5
        """
        return min(total, max(count + 1, math.ceil(round(min(self.growth * count, total), 6))))

    def count_kept(self, configurations: int) -> int:
        """Return how many configurations stay at most, without ties; all of them if `keep` is None."""
        return configurations if self.keep is None else count_share(self.keep, configurations)

    def resolved(self) -> dict[str, Any]:
        """Return the section as plain data: given values, and defaults that have an effect."""
        level = {"level": self.level or DEFAULT_LEVEL} if self.test else {}
        return self.model_dump(exclude_none=True) | level


class Search(Strict):
    """How configurations are drawn from the space."""

    sampler: Literal["random", "tpe", "qmc", "grid", "listed"] = Field(
        default="random",
        description="random: independent draws. tpe: learns from finished configurations. qmc: evenly spread draws. "
        "grid: the grid points alone. listed: the configurations of search.listed, with no space.",
    )
    configurations: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Number of draws from the random domains; needed if the space has any, else left out.",
    )
    seed: int = Field(
        default=0,
        ge=0,
        le=LARGEST_SEED,
        description="The seed of the draws; each depends only on it and on its number.",
    )
    generation: int = Field(
        default=8,
        ge=1,
        le=100_000,
        description="tpe only: configurations that are drawn together, before it waits for their scores.",
    )
    startup: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="tpe only: results that it needs before it learns from them; until then it draws at random. null: "
        "as many as a generation has.",
    )
    failed_configurations: Literal["worst", "ignored"] = Field(
        default="worst",
        description="tpe only: whether a configuration without a score counts as the worst score, or is left out.",
    )
    listed: Listed | None = Field(
        default=None,
        description="listed only: the configurations themselves, each a mapping of dotted keys to values; a key that "
        "one of them leaves out keeps its fixed value.",
    )
    racing: Racing | None = Field(
        default=None,
        description="Gives further seeds only to the configurations that are ahead at objective.lengths; null gives "
        "every configuration all seeds.",
    )

    @property
    def results_needed(self) -> int:
        """The number of results that tpe needs before it learns from them."""
        return self.generation if self.startup is None else self.startup

    def count_informed(self, drawn: int, failed: Collection[int] = ()) -> int:
        """Return how many of the first `drawn` configurations depend on results; failed: numbers without a score.

        Search(sampler="tpe", generation=8, startup=10).count_informed(20) -> 4; 0 for samplers that read no results.
        """
        if self.sampler != "tpe":
            return 0

        # A generation is drawn at random until `startup` results precede it; ignored failures do not count as results.
        ignored = set(failed) if self.failed_configurations == "ignored" else set()
        for start in range(0, drawn, self.generation):
            if start - sum(number < start for number in ignored) >= self.results_needed:
                return drawn - start
        return 0
