"""The objective of a sweep, which ranks configurations."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field

from search_spaces.grammar.domains import is_number
from search_spaces.grammar.problems import find_nearest_name
from search_spaces.grammar.values import Lengths, Strict, Text, make_value_error

STATISTICS = ("median", "mean", "max", "min")


class SeedQuantile(Strict):
    """A quantile over seeds, by linear interpolation."""

    quantile: Annotated[
        float, Field(gt=0, lt=1, description="The quantile; at 0.25 a quarter of the seeds are below the score.")
    ]


class ShareAbove(Strict):
    """The share of seeds whose value reaches a threshold."""

    share_above: float = Field(description="The threshold that a seed has to reach.")


def _check_statistic(value: Any) -> Any:
    """Return a statistic over seeds in its class. Raises a validation error that names all forms."""
    # pydantic would report an error for each of the classes that do not match, instead of a single one.
    match value:
        case str() if value in STATISTICS:
            return value
        case {"quantile": number, **rest} if not rest and is_number(number) and 0 < number < 1:
            return SeedQuantile(quantile=number)
        case {"share_above": number, **rest} if not rest and is_number(number):
            return ShareAbove(share_above=number)
        case SeedQuantile() | ShareAbove():
            return value

    allowed = ", ".join((*STATISTICS, "{quantile: 0.25} (between 0 and 1)", "{share_above: 0.99}"))
    nearest = find_nearest_name(value, STATISTICS) if isinstance(value, str) else None
    raise make_value_error("is not a statistic over seeds", allowed, nearest)


Statistic = Annotated[
    Literal["median", "mean", "max", "min"] | SeedQuantile | ShareAbove, BeforeValidator(_check_statistic)
]


class Objective(Strict):
    """The score by which configurations are ranked: the median, or another statistic, over seeds."""

    model_config = ConfigDict(json_schema_extra={"required": ["metric", "lengths"]})  # see `load._fill_objective`

    metric: Text = Field(description="The metric, one of the task's.")
    average: Text = Field(
        description="The scored weight average, one of training.averages; may be left out if there is only one."
    )
    lengths: Lengths = Field(description="The selection lengths, which alone decide the score, such as [1-5, 8].")
    direction: Literal["minimize", "maximize"] = Field(
        description="Whether small or large scores are good; may be left out if the metric declares it."
    )
    reduce: Literal["mean", "max", "last"] = Field(
        default="mean",
        description="The statistic over lengths: the mean, the largest value, or the value at the longest length.",
    )
    evaluation: Literal["last", "best"] = Field(
        default="last",
        description="The judged evaluation of each seed: the last one, or the one with the best value at these lengths "
        "(the latest of equals). All reported values of a seed are from this evaluation.",
    )
    seeds: Statistic = Field(
        default="median",
        description="The statistic over seeds that is the score of a configuration. Tables and curves always show "
        "medians.",
    )
    failed_seeds: Literal["worst", "exclude", "fail"] = Field(
        default="worst",
        description="Whether a failed seed counts as the worst score, is left out, or fails the configuration. A seed "
        "fails if its training diverges, its pack dies, or the metric is NaN at one of these lengths.",
    )
    threshold: float | None = Field(
        default=None,
        description="The generalization length is the greatest length up to which every median meets this value.",
    )

    @property
    def statistic(self) -> str:
        """The name of the statistic over seeds, such as `median`, `0.25 quantile` or `share above 0.99`."""
        if isinstance(self.seeds, SeedQuantile):
            return f"{self.seeds.quantile:g} quantile"
        return f"share above {self.seeds.share_above:g}" if isinstance(self.seeds, ShareAbove) else self.seeds
