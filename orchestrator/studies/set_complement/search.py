"""The random search of set complement: what each hyperparameter does to the test error."""

from typing import Any

import numpy as np

from orchestrator.statistics.effects import effects
from orchestrator.statistics.partial_effects import partial_effects
from orchestrator.studies.claims import Part, Table, span
from orchestrator.studies.measures import Effect, Sweep
from orchestrator.studies.set_complement.measures import TV


def hyperparameters(search: Sweep) -> list[Table]:
    """Every searched hyperparameter: rank correlation with the test error, and its effect with the others held."""
    tables = []
    for average in ("raw", "ema"):
        drawn, scores = search_scores(search, average)
        if average == "raw":  # the searched decay changes nothing there
            drawn = {name: {k: v for k, v in values.items() if ".ema." not in k} for name, values in drawn.items()}
        alone = effects(drawn, scores)
        partial = partial_effects(drawn, scores)
        rows: list[tuple[Any, ...]] = []
        for effect in alone:
            if effect.kind == "numeric":
                numbers = f"{effect.correlation:+.2f} [{effect.low:+.2f}, {effect.high:+.2f}]"
            else:
                numbers = f"p = {effect.p:.2g}"
            medians = "; ".join(f"{value}: {median:.3f}" for value, median in effect.medians.items())
            others = "; ".join(
                f"{one.value + ' ' if one.value else ''}{one.coefficient:+.2f} [{one.low:+.2f}, {one.high:+.2f}]"
                for one in partial[effect.key].slopes
            )
            rows.append((effect.key, numbers, others, medians, effect.n))
        head = ("hyperparameter", "rank correlation, or Kruskal-Wallis", "partial effect", "median by value", "n")
        tables.append(
            Table(title=f"total variation at test lengths {span(search.test)}, {average} weights", head=head, rows=rows)
        )
    return tables


def held_fixed(
    drawn: dict[str, dict[str, Any]], scores: dict[str, float], name: str, key: str, value: str, words: str
) -> Part:
    """What one hyperparameter does to the test error of the search when the other ones are held."""
    drawn = {config: {k: v for k, v in values.items() if ".averages." not in k} for config, values in drawn.items()}
    partial = partial_effects(drawn, scores)[key]
    slope = next(slope for slope in partial.slopes if slope.value == value)
    effect = Effect(value=slope.coefficient, low=slope.low, high=slope.high, n=partial.n, unit="configurations")
    return Part(
        asked=f"{name}: with the other hyperparameters held, does {words} lower the test error of raw weights?",
        effect=f"{effect} (standard deviations of the error's rank)",
        answer=effect.verdict("smaller"),
    )


def search_scores(sweep: Sweep, average: str) -> tuple[dict[str, dict[str, Any]], dict[str, float]]:
    """Drawn values and median test error by config_id; a configuration with a failed seed has no score."""
    rows = sweep.members(TV, average, sweep.test)
    scores = rows.groupby("config_id")["value"].agg(lambda values: np.median(values.to_numpy()))
    return (
        {name: dict(found.values) for name, found in sweep.state.configurations.items()},
        {str(name): float(score) for name, score in scores.items()},
    )
