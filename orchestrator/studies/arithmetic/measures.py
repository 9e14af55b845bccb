"""What the claims about arithmetic share: arms, and their values by seed at the best and at the last evaluation."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pandas as pd

from orchestrator.results.scoring.evaluation_choice import BEST, LAST
from orchestrator.results.scoring.last_and_best import compare_last_and_best
from orchestrator.results.scoring.length_groups import length_groups
from orchestrator.studies.claims import Part, Table, short
from orchestrator.studies.measures import Effect, Sweep, effect_of_seeds
from orchestrator.wording import spans

EXACT = "exact_match"
EVALUATIONS = {BEST: "best evaluation", LAST: "last evaluation"}
ENCODINGS = {"learned": "APE", "rpe": "RPE", "upe": "UPE", "significance": "heads by significance"}
Values: TypeAlias = "pd.Series[float]"


def arms(sweep: Sweep) -> dict[str, str]:
    """The configuration of each arm by its label; of several weight decays the one that the objective chooses.

    The objective looks at the selection lengths alone, at the evaluation that the sweep file names.
    """
    found: dict[str, list[str]] = {}
    for name in sweep.state.configurations:
        found.setdefault(label(sweep, name), []).append(name)
    return {text: sweep.selected(names) for text, names in found.items()}


def label(sweep: Sweep, name: str) -> str:
    """What is searched of a configuration, weight decay apart; its encoding where nothing is."""
    searched = sweep.state.spec["space"]
    keys = {"task.distribution": "", "task.multiplier_digits": "-digit multiplier"}
    words = [f"{sweep.setting(name, key)}{unit}" for key, unit in keys.items() if key in searched]
    if not words or any(key.startswith("model.position") for key in searched):
        words.append(encoding(sweep, name))
    return ", ".join(words)


def encoding(sweep: Sweep, name: str) -> str:
    """APE, RPE + zeros, or the encoding's own name with the settings that were given."""
    position = sweep.setting(name, "model.position")
    given = sweep.state.configurations[name].values.get("model.position")
    words = [ENCODINGS.get(position, position)]
    if position not in ENCODINGS and isinstance(given, Mapping):
        settings = {key: value for key, value in given.items() if key != "name"}
        words += [key if value is True else f"{key} {value}" for key, value in settings.items()]
    return ", ".join(words) + (" + zeros" if sweep.setting(name, "task.zero_shift") else "")


def by_seed(sweep: Sweep, name: str, metric: str, at: str, lengths: Sequence[int] | None = None) -> Values:
    """The mean of a metric over lengths, by default the test lengths, of each seed; NaN where it failed."""
    rows = sweep.members(metric, sweep.objective.average, sweep.test if lengths is None else lengths, at=at)
    return rows[rows["config_id"] == name].set_index("seed")["value"]


def over_kinds(sweep: Sweep, name: str, stem: str, numbers: Iterable[int], at: str) -> Values:
    """The mean over metrics stem_number, each over the test lengths at which inputs can have that number."""
    return by_kind(sweep, name, stem, numbers, at, sweep.test).mean(skipna=False)


def possible(sweep: Sweep, number: int) -> list[int]:
    """The test lengths that can have a cascade, or a run of carries, of this length."""
    return [s for s in sweep.test if s >= number]


def by_kind(
    sweep: Sweep, name: str, stem: str, numbers: Iterable[int], at: str, lengths: Sequence[int]
) -> pd.DataFrame:
    """Numbers by seeds: the mean of the metric stem_number over those of the lengths that can have that number."""
    possible = {n: [s for s in lengths if s >= n] for n in numbers}
    return pd.DataFrame({n: by_seed(sweep, name, f"{stem}_{n}", at, those) for n, those in possible.items()}).T


def trained(sweep: Sweep) -> str:
    """Which lengths training has seen, evaluated or not."""
    return f"trained on up to {max(sweep.trained)} digits"


def change(first: Values, second: Values) -> Effect:
    """First minus second, seed by seed."""
    return effect_of_seeds(first - second)


def larger(effect: Effect) -> str:
    """The answer to whether there is more of something."""
    return effect.verdict("larger")


def smaller(effect: Effect) -> str:
    """The answer to whether there is less of something."""
    return effect.verdict("smaller")


def at_both(
    asked: str,
    effect_at: Callable[[str], Effect],
    answer: Callable[[Effect], str] = larger,
    words: Callable[[Effect], str] = str,
) -> Part:
    """A question put to the best evaluation, and again to the last one."""
    last: Part | None = None
    for at in (LAST, BEST):
        effect = effect_at(at)
        last = Part(asked=asked, effect=words(effect), answer=answer(effect), of=EVALUATIONS[at], again=last)
    assert last
    return last


def better(sweep: Sweep, chosen: Mapping[str, str], first: str, second: str) -> Part:
    """Whether exact match is higher in one arm than in another at the test lengths."""
    return at_both(
        f"is exact match at test lengths {spans(sweep.test)} higher with {first} than with {second}?",
        lambda at: change(*(by_seed(sweep, chosen[arm], EXACT, at) for arm in (first, second))),
    )


def by_length(sweep: Sweep, chosen: Mapping[str, str], metric: str = EXACT) -> Table:
    """The median curves of some arms at both evaluations."""
    rows = [
        (
            arm,
            sweep.setting(name, "training.weight_decay"),
            words,
            *sweep.curve(metric, sweep.objective.average, [name], at).median(axis=1),
        )
        for arm, name in chosen.items()
        for at, words in EVALUATIONS.items()
    ]
    title = (
        f"{metric.replace('_', ' ')} by number of digits, median over seeds: trained 1-{max(sweep.trained)}, "
        f"selection {spans(sweep.selection)}, test {spans(sweep.test)}"
    )
    return Table(title=title, head=("arm", "weight decay", "evaluation", *map(str, sweep.lengths)), rows=rows)


def fluctuation(sweeps: Iterable[Sweep]) -> Table:
    """How far the best and the last evaluation of each arm differ at the test lengths."""
    rows = []
    for sweep in sweeps:
        chosen = arms(sweep)
        groups = {name: length_groups(sweep.measured[name], sweep.objective) for name in chosen.values()}
        compared = compare_last_and_best(sweep.curves, sweep.objective, groups, sweep.state.seeds())
        ranges = {one.config_id: one.fluctuation for one in compared}
        for arm, name in chosen.items():
            best, last = (by_seed(sweep, name, EXACT, at) for at in (BEST, LAST))
            effect = change(best, last)
            largest = float(np.abs(best - last).max())
            medians = (float(best.median()), float(last.median()))
            rows.append((sweep.name, arm, *medians, short(effect), largest, ranges.get(name, np.nan), effect.n))
    head = ("sweep", "arm", "best", "last", "best - last", "largest of a seed", "range in the second half", "seeds")
    title = (
        "exact match at the test lengths: median over seeds at the best evaluation and at the last one, their "
        "difference seed by seed, the largest difference of any seed, and the median over seeds of largest minus "
        "smallest value in the second half of the evaluations"
    )
    return Table(title=title, head=head, rows=rows)
