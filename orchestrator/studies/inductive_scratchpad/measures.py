"""What the claims about scratchpads share: arms by scratchpad, seeds that learned, exact matches by length."""

import math
from collections.abc import Sequence

import pandas as pd

from orchestrator.studies.measures import Effect, Sweep, paired_effect

EXACT = "exact_match"
LABEL = "label"  # of a graph: the label and the end mark
SUM = "sum"  # of an addition: the end mark in its place, and the sum in front of it
LEARNED = 0.9  # the least exact match at every trained length of a seed that has learned the task
_CHANGED = {
    "model.dropout": "dropout {}",
    "training.weight_decay": "weight decay {}",
    "training.batch_size": "batches of {}",
}
INDUCTIVE, FULL, OFFSETS, NONE = "inductive", "full", "full, random offsets", "none"


def arms(sweep: Sweep) -> dict[str, str]:
    """The configurations by their scratchpad."""
    return {scratchpad(sweep, name): name for name in sweep.state.configurations}


def scratchpad(sweep: Sweep, name: str) -> str:
    """The scratchpad of a configuration, in words."""
    task = sweep.resolved(name, "task")
    return str(task["scratchpad"]) + (", random offsets" if task.get("random_offsets") else "")


def trained(sweep: Sweep) -> tuple[int, ...]:
    """The trained lengths that were evaluated."""
    return tuple(length for length in sweep.trained if length in sweep.lengths)


def beyond(sweep: Sweep) -> tuple[int, ...]:
    """The evaluated lengths that are longer than every trained one, without those of the objective."""
    return tuple(length for length in sweep.test if length > max(sweep.trained))


def matches(sweep: Sweep, name: str, lengths: Sequence[int], metric: str = EXACT, reduce: str = "mean") -> pd.DataFrame:
    """One row per seed of a configuration: `value`, the metric reduced over lengths."""
    table = sweep.members(metric, "raw", lengths, reduce=reduce)
    return table[table["config_id"] == name]


def learned(sweep: Sweep, name: str, metric: str = EXACT) -> set[int]:
    """The seeds that are right at every trained length in a share of at least LEARNED."""
    rows = matches(sweep, name, trained(sweep), metric, reduce="min")
    return set(rows.loc[rows["value"] >= LEARNED, "seed"].tolist())


def seeds(sweep: Sweep, name: str) -> list[int]:
    """Every seed of a configuration."""
    return list(sweep.state.configurations[name].members)


def difference(
    sweep: Sweep, first: str, second: str, lengths: Sequence[int], metric: str = EXACT, judged: str | None = EXACT
) -> Effect:
    """The metric of `first` minus that of `second`, seed by seed, over the seeds that learned `judged` with both.

    None: over all seeds, whether they learned or not.
    """
    if judged is None:
        both = set(seeds(sweep, first))
    else:
        both = learned(sweep, first, judged) & learned(sweep, second, judged)
    one, other = (matches(sweep, name, lengths, metric) for name in (first, second))
    if not both:
        return Effect(value=math.nan, low=math.nan, high=math.nan, n=0, unit="seeds")
    return paired_effect(one[one["seed"].isin(both)], other[other["seed"].isin(both)], on=("seed",))


def changes(sweep: Sweep) -> dict[str, tuple[str, str]]:
    """Each configuration after the first by what it changes: the value of the first and its own, in words."""
    first, *others = sweep.state.configurations
    found = {}
    for config_id in others:
        pairs = [
            tuple(words.format(f"{sweep.setting(name, key):g}") for name in (first, config_id))
            for key, words in _CHANGED.items()
        ]
        ((before, now),) = [pair for pair in pairs if pair[0] != pair[1]]
        found[config_id] = (before, now)
    return found


def by_change(sweep: Sweep) -> dict[str, str]:
    """Every configuration by what it changes; the first by the values that others change."""
    first, found = next(iter(sweep.state.configurations)), changes(sweep)
    unchanged = ", ".join(dict.fromkeys(before for before, _ in found.values()))
    return {unchanged: first, **{now: config_id for config_id, (_, now) in found.items()}}
