"""The effects that a sweep shows clearly: those whose 95 % interval excludes 0.

Left out are those of keys that change along with others, as in a list of configurations.
"""

import math

from orchestrator.report.tables.columns import NONE, Cells, Columns, interval, make_cells
from orchestrator.report.tables.effects import EffectLine, effect_lines, outcomes
from orchestrator.results.analysis import compare_weight_averages, effects_on_score
from orchestrator.results.summary import Summary
from orchestrator.wording import short_keys, spans

CONFOUNDED = "keys change along with one another, and none can be judged by itself"


def clear_cells(result: Summary) -> Cells:
    """Return a table of the effects with an interval that excludes 0; empty without any."""
    names = _key_names(result)
    keys = list(names)
    lines = [line for line in _lines_with_interval(result) if any(low > 0 or high < 0 for low, high in line.intervals)]
    columns: Columns = {
        "effect of": lambda line: f"{names[line.effect.key]}{line.comparison}",
        "at lengths": lambda line: line.outcome.at_lengths,
        "rank correlation": lambda line: _correlation(line),
        "others held fixed": lambda line: _number(line.slope, "coefficient", "+.2f"),
        "difference": lambda line: _number(line.difference, "difference", "+#.3g"),
    }
    return make_cells(sorted(lines, key=lambda line: (keys.index(line.effect.key), line.outcome.group)), columns)


def clear_sentence(result: Summary) -> str:
    """Return how many effects have an interval that excludes 0, what + means, and which keys have no interval."""
    lines = _lines_with_interval(result)
    if not lines:
        every = [effect for outcome in outcomes(result) for effect in outcome.effects]
        reasons = {effect.reason if effect.matched else CONFOUNDED for effect in every}
        why = reasons.pop() if len(reasons) == 1 else None
        return f"No effect of a hyperparameter has an interval{f': {why}' if why else ''}."
    known = {line.effect.key for line in lines}
    unknown = ", ".join(name for key, name in _key_names(result).items() if key not in known)
    without = f"; {unknown}: no interval" if unknown else ""
    clear = len(next(iter(clear_cells(result).values()), []))
    effects = f"{len(lines)} effect{'' if len(lines) == 1 else 's'} of hyperparameters"
    if not clear:
        return f"None of {effects} has a 95 % interval without 0{without}."
    meaning = "+ is worse" if result.objective.direction == "minimize" else "+ is better"
    return f"{clear} of {effects} {'has' if clear == 1 else 'have'} a 95 % interval without 0 ({meaning}{without}):"


def clear_averages(result: Summary) -> list[str]:
    """Return a sentence for each weight average that differs from the judged one with an interval that excludes 0."""
    lengths = {"selection": spans(result.objective.lengths), "test": spans(result.test_lengths)}
    clear: dict[str, list[str]] = {}
    for one in compare_weight_averages(result):
        if one.group in lengths and (one.low > 0 or one.high < 0):
            number = interval(one.difference, one.low, one.high, "+#.3g")
            clear.setdefault(one.average, []).append(f"{number} at lengths {lengths[one.group]}")
    metric, judged = result.objective_curve
    return [f"{metric} with {name} instead of {judged} weights: {', '.join(one)}" for name, one in clear.items()]


def _lines_with_interval(result: Summary) -> list[EffectLine]:
    """Return one line per effect with an interval; a key with differences has another one for its correlation."""
    lines = [
        EffectLine(outcome=outcome, effect=effect)
        for outcome in outcomes(result)
        for effect in outcome.effects
        if effect.differences
    ]
    return [line for line in (*lines, *effect_lines(result)) if line.effect.matched and line.intervals]


def _key_names(result: Summary) -> dict[str, str]:
    return short_keys([effect.key for effect in effects_on_score(result)])


def _correlation(line: EffectLine) -> str:
    effect = line.effect
    return NONE if line.difference else interval(effect.correlation, effect.low, effect.high, "+.2f")


def _number(part: object, name: str, form: str) -> str:
    """Return a slope or a difference with its interval."""
    value, low, high = (getattr(part, attribute, math.nan) for attribute in (name, "low", "high"))
    return interval(value, low, high, form)
