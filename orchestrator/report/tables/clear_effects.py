"""The effects that a sweep shows: those of hyperparameters and weight averages whose 95 % interval excludes 0."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from orchestrator.report.tables.effect_tables import outcomes
from orchestrator.report.tables.tables import Columns, interval
from orchestrator.results.analysis import compare_weight_averages, effects_on_score
from orchestrator.results.effects.hyperparameter_effects import Effect
from orchestrator.results.summary import Summary
from orchestrator.wording import short_keys, spans


@dataclass(frozen=True, kw_only=True)
class Line:
    """One effect on one outcome, in the cells of a table."""

    key: str
    what: str
    lengths: str
    alone: str = "-"
    held: str = "-"
    apart: str = "-"
    clear: bool


def clear_columns(result: Summary) -> Columns:
    """A line for each effect on the selection or on the test lengths that has an interval without 0; else nothing."""
    lines = [line for line in _lines(result) if line.clear]
    columns = {
        "effect of": [line.what for line in lines],
        "at lengths": [line.lengths for line in lines],
        "rank correlation": [line.alone for line in lines],
        "others held fixed": [line.held for line in lines],
        "difference": [line.apart for line in lines],
    }
    return {name: cells for name, cells in columns.items() if set(cells) - {"-"}}


def effect_lines(columns: Columns) -> list[str]:
    """The same where there is no room for a table: a sentence for each effect."""
    lines = []
    for what, lengths, *cells in zip(*columns.values(), strict=True):
        shown = zip(list(columns)[2:], cells, strict=True)
        numbers = "; ".join(f"{name} {cell}" for name, cell in shown if cell != "-")
        lines.append(f"{what}, {lengths}: {numbers}")
    return lines


def clear_sentence(result: Summary) -> str:
    """How many effects have an interval without 0, what + means, and which keys have no interval at all."""
    lines = list(_lines(result))
    if not lines:
        reasons = {effect.reason for _, effects in outcomes(result) for effect in effects}
        why = reasons.pop() if len(reasons) == 1 else None
        return f"No effect of a hyperparameter has an interval{f': {why}' if why else ''}."
    names, known = short_keys([effect.key for effect in effects_on_score(result)]), {line.key for line in lines}
    unknown = [name for key, name in names.items() if key not in known]
    without = f"; {', '.join(unknown)}: no interval" if unknown else ""
    clear = sum(line.clear for line in lines)
    of = f"{len(lines)} effect{'' if len(lines) == 1 else 's'} of hyperparameters"
    if not clear:
        return f"None of {of} has a 95 % interval without 0{without}."
    meaning = "+ is worse" if result.objective.direction == "minimize" else "+ is better"
    return f"{clear} of {of} {'has' if clear == 1 else 'have'} a 95 % interval without 0 ({meaning}{without}):"


def clear_averages(result: Summary) -> list[str]:
    """A line for each weight average that differs from the judged one with an interval without 0."""
    lengths = {"selection": spans(result.objective.lengths), "test": spans(result.test_lengths)}
    lines = []
    for average in dict.fromkeys(one.average for one in compare_weight_averages(result)):
        found = [
            f"{interval(one.difference, one.low, one.high, '+#.3g')} at lengths {lengths[one.group]}"
            for one in compare_weight_averages(result)
            if one.average == average and one.group in lengths and _excludes_zero(one.low, one.high)
        ]
        if found:
            instead = f"{average} instead of {result.objective.average} weights"
            lines.append(f"{result.objective.metric} with {instead}: {', '.join(found)}")
    return lines


def _lines(result: Summary) -> Iterator[Line]:
    """Every effect that has an interval: of a number one line, of categories and grids one for each but the first."""
    short = short_keys([effect.key for effect in effects_on_score(result)])
    found = outcomes(result)
    for one_key in zip(*(effects for _, effects in found), strict=True):
        for effect, (lengths, _) in zip(one_key, found, strict=True):
            yield from _of_effect(effect, short[effect.key], lengths)


def _of_effect(effect: Effect, name: str, lengths: str) -> Iterator[Line]:
    alone, clear = (
        interval(effect.correlation, effect.low, effect.high, "+.2f"),
        _excludes_zero(effect.low, effect.high),
    )
    one = partial(Line, key=effect.key, lengths=lengths)
    first = next(iter(effect.medians), "the first value")
    for held in effect.partial.slopes:
        if math.isnan(held.low):
            continue
        what = f"{name}: {held.value} instead of {first}" if held.value else name
        text = interval(held.coefficient, held.low, held.high, "+.2f")
        yield one(what=what, alone=alone, held=text, clear=clear or _excludes_zero(held.low, held.high))
    if not effect.partial.slopes and not math.isnan(effect.low):
        yield one(what=name, alone=alone, clear=clear)
    for apart in effect.differences:
        if not math.isnan(apart.low):
            text = interval(apart.difference, apart.low, apart.high, "+#.3g")
            what = f"{name}: {apart.value} instead of {apart.against}"
            yield one(what=what, apart=text, clear=_excludes_zero(apart.low, apart.high))


def _excludes_zero(low: float, high: float) -> bool:
    return low > 0 or high < 0
