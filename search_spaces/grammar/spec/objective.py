"""The objective of a sweep, by which configurations are judged."""

from typing import Literal

from pydantic import ConfigDict, Field

from search_spaces.grammar.spec.values import Lengths, Strict, Text


class Objective(Strict):
    """What makes one configuration better than another: the median over its seeds of this score."""

    model_config = ConfigDict(json_schema_extra={"required": ["metric", "lengths"]})  # see `load._fill_objective`

    metric: Text = Field(description="The metric, one of the task's.")
    average: Text = Field(
        description="The weight average that is scored, one of training.averages; may be left out if there is one."
    )
    lengths: Lengths = Field(description="The validation lengths the score is taken at; all other lengths stay unseen.")
    direction: Literal["minimize", "maximize"] = Field(
        description="Whether a small or a large score is good; may be left out if the metric says it."
    )
    reduce: Literal["mean", "max", "last"] = Field(
        default="mean",
        description="How the values at the lengths become one score: the mean, the largest, or that at the longest.",
    )
    evaluation: Literal["last", "best"] = Field(
        default="last",
        description="The evaluation each seed is judged at: the last one, or the one with the best value at these "
        "lengths, the later one of equals. Everything that is reported of the seed is taken there.",
    )
    failed_seeds: Literal["worst", "exclude", "fail"] = Field(
        default="worst",
        description="A seed whose training diverged counts as the worst score, is left out of the median, or fails the "
        "configuration.",
    )
    threshold: float | None = Field(
        default=None,
        description="Generalization length is the greatest length at which the median still meets this value.",
    )
