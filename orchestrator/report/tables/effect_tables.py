"""Effects of hyperparameters and of weight averages as text: columns of cells, and the sentences that go with them."""

import math
from collections.abc import Iterable, Iterator

from orchestrator.report.tables.tables import Columns, curve_name, interval
from orchestrator.results.analysis import compare_weight_averages, effects_at_test_lengths, effects_on_score
from orchestrator.results.effects.hyperparameter_effects import Effect
from orchestrator.results.scoring.evaluation_choice import BEST
from orchestrator.results.summary import Summary
from orchestrator.statistics.design import ADAPTIVE
from orchestrator.statistics.partial_effects import Slope
from orchestrator.wording import counted, short_keys, spans, three_digits


def outcomes(result: Summary) -> list[tuple[str, tuple[Effect, ...]]]:
    """What effects are on: the score at the selection lengths, and the same metric at the test lengths."""
    found = [(f"selection {spans(result.objective.lengths)}", effects_on_score(result))]
    if effects_at_test_lengths(result):
        found.append((f"test {spans(result.test_lengths)}", effects_at_test_lengths(result)))
    return found


SLOPE = "standardised slope, others held"


def effect_columns(result: Summary, full_names: bool = True, gap: str = " ", separator: str = ", ") -> Columns:
    """The effect of each searched key, a line for each outcome.

    `gap` stands between a number and its interval, `separator` between the values of a category.
    """
    short = short_keys([effect.key for effect in effects_on_score(result)])
    lines = [
        (effect, lengths, place)
        for key_effects in zip(*(effects for _, effects in outcomes(result)), strict=True)
        for place, (effect, (lengths, _)) in enumerate(zip(key_effects, outcomes(result), strict=True))
    ]
    names = [effect.key if full_names else short[effect.key] for effect, _, _ in lines]
    columns = {
        "hyperparameter": [name if place == 0 else "" for name, (_, _, place) in zip(names, lines, strict=True)],
        "at lengths": [lengths for _, lengths, _ in lines],
        "n": [effect.count.replace(", ", f",{gap}") for effect, _, _ in lines],
        "rank correlation [95 %]": [_alone(effect, gap) for effect, _, _ in lines],
        "difference from the first value [95 %]": [_differences(effect, gap, separator) for effect, _, _ in lines],
        f"{SLOPE} [95 %]": [_held_fixed(effect, gap, separator) for effect, _, _ in lines],
        "importance": [_share(effect.importance.share) for effect, _, _ in lines],
        "median by value": [_by_value(effect, separator, result.infinite) for effect, _, _ in lines],
    }
    return {name: cells for name, cells in columns.items() if set(cells) != {"-"}}


UNITS = {
    "random": "n counts configurations, each drawn by itself; intervals are over configurations.",
    "grid_by_random": "n counts draws: the grid points of a draw share its other values, so they are no independent "
    "configurations. A key that was drawn has one number for each draw, the mean of its ranks at the grid points. The "
    "values of a grid key are compared within each draw. Intervals are over draws.",
    "fixed": "n counts seeds: no configuration was drawn, and all have the same seeds, each with its own data and "
    "initial weights. So values are compared seed by seed. Intervals are over seeds, for these configurations.",
    "adaptive": f"n counts configurations, and no interval or test is given: {ADAPTIVE}.",
}


def effect_notes(result: Summary) -> list[str]:
    """What n counts, how to read the effects, and why numbers are missing."""
    rises = "worse" if result.objective.direction == "minimize" else "better"
    effects = [effect for _, found in outcomes(result) for effect in found]
    notes = [
        f"Outcomes: {curve_name(result)}, median over seeds, at the selection lengths and at the test lengths; + means "
        f"that it rises with the hyperparameter, which is {rises}. An interval that holds 0 says that this sweep does "
        "not tell.",
        UNITS[result.design.kind],
    ]
    if number := sum(1 for _ in shown_intervals(effects)):
        notes.append(
            f"{number} interval{'s' if number > 1 else ''} of effects {'are' if number > 1 else 'is'} shown, each by "
            f"itself: where nothing has an effect, about {chance(number)} of {number} would exclude 0 by chance."
        )
    if not effects_at_test_lengths(result):
        notes.append("There are no test lengths that all configurations were evaluated at.")
    if any(effect.differences for effect in effects):
        notes.append(
            f"Difference from the first value: the median over {result.design.unit} of the outcome at one value minus "
            "that at the first, all else that is compared being the same (keys that only some configurations have are "
            "averaged over). Its interval is between two of these differences, so it covers in 95 % or more, whatever "
            f"their distribution. p is over the same {result.design.unit}."
        )
    if any(effect.differences and not math.isnan(effect.correlation) for effect in effects):
        notes.append(f"Rank correlation of a key with differences: the median of those within {result.design.unit}.")
    if apart := list(dict.fromkeys(effect.key for effect in effects if not effect.matched)):
        notes.append(f"Other keys change along with {', '.join(apart)} and may make the difference.")
    if shown := [effect for effect in effects if effect.partial.slopes]:
        notes.append(
            "Standardised slope, others held: least squares on the ranks of all hyperparameters at once, in standard "
            "deviations; n = " + ", ".join(map(str, dict.fromkeys(effect.partial.n for effect in shown))) + "."
        )
    missing = ((e.key, e.partial.reason) for e in effects if not e.partial.slopes)
    notes += _missing("Slope with the others held", missing)
    if any(not math.isnan(effect.importance.share) for effect in effects):
        notes.append(
            "Importance: the share of fANOVA (a random forest on ranks). Shares add up to 1 also where nothing has an "
            "effect, so believe one only beside an interval that excludes 0."
        )
    notes += _missing("Importance (fANOVA)", ((e.key, e.importance.reason) for e in effects))
    return notes


def shown_intervals(effects: Iterable[Effect]) -> Iterator[tuple[float, float]]:
    """The ends of every interval that is given with an effect."""
    for effect in effects:
        ends = [(effect.low, effect.high)]
        ends += [(one.low, one.high) for one in effect.differences]
        ends += [(one.low, one.high) for one in effect.partial.slopes]
        yield from (one for one in ends if not math.isnan(one[0]))


def chance(intervals: int) -> str:
    """How many of so many 95 % intervals leave out the truth on the average."""
    return f"{0.05 * intervals:.2g}"


def comparison_columns(result: Summary, gap: str = " ") -> Columns:
    """Every weight average against the objective's on the same members, by group of lengths; `gap` before intervals."""
    pairs = compare_weight_averages(result)
    return {
        "average": [one.average for one in pairs],
        "against": [one.against for one in pairs],
        "at lengths": [one.group for one in pairs],
        "members": [str(one.members) for one in pairs],
        "median difference [95 %]": [interval(one.difference, one.low, one.high, "#.3g", gap) for one in pairs],
        "quartiles": [
            "-" if math.isnan(one.q25) else f"{three_digits(one.q25)}, {three_digits(one.q75)}" for one in pairs
        ],
        "lower on" if result.objective.direction == "minimize" else "higher on": [str(one.better) for one in pairs],
        "higher on" if result.objective.direction == "minimize" else "lower on": [str(one.worse) for one in pairs],
        "n": [str(one.n) for one in pairs],
        "Wilcoxon p": [_p(one.wilcoxon_p) for one in pairs],
        "sign test p": [_p(one.sign_p) for one in pairs],
    }


CHOSEN = "The evaluation of both is the one chosen by the objective's average."


def comparison_note(result: Summary) -> str:
    """How to read the comparison of averages, and why intervals are missing."""
    of, unit = result.objective, result.design.unit
    reasons = list(dict.fromkeys(one.reason for one in compare_weight_averages(result) if one.reason))
    dropped = max((one.dropped for one in compare_weight_averages(result)), default=0)
    return " ".join(
        [
            f"Differences of {of.metric}, average minus the objective's ({of.average}), of the same trained member. "
            f"Members of one of the n {unit} are not independent of each other, so each counts with the median "
            f"difference of its members: the number, interval and tests are over {unit}. An interval is between two "
            "of these medians, and covers in 95 % or more, whatever their distribution. Quartiles, lower and higher "
            "are over members.",
            *([f"Without {counted(dropped, 'member')} that failed."] if dropped else []),
            *([CHOSEN] if of.evaluation == BEST else []),
            *(f"Numbers that are not given: {reason}." for reason in reasons),
        ]
    )


def _alone(effect: Effect, gap: str) -> str:
    """Rank correlation and p of the test, those that there are, and why one is missing."""
    numbers = [interval(effect.correlation, effect.low, effect.high, "+.2f", gap)]
    numbers += [] if math.isnan(effect.p) else [f"{effect.test}{gap}p = {effect.p:.2g}"]
    text = gap.join(one for one in numbers if one != "-") or "-"
    if effect.differences or not effect.reason:
        return text
    return effect.reason if text == "-" else f"{text}{gap}({effect.reason})"


def _differences(effect: Effect, gap: str, separator: str) -> str:
    cells = [
        f"{one.value}: {interval(one.difference, one.low, one.high, '+#.3g', gap)}"
        + (f"{gap}({one.reason})" if one.reason and one.reason != effect.reason else "")
        for one in effect.differences
    ]
    text = separator.join(cells) or "-"
    return f"{text}{gap}({effect.reason})" if cells and effect.reason else text


def _held_fixed(effect: Effect, gap: str, separator: str) -> str:
    def cell(partial: Slope) -> str:
        text = interval(partial.coefficient, partial.low, partial.high, "+.2f", gap)
        return f"{partial.value}: {text}" if partial.value else text

    return separator.join(map(cell, effect.partial.slopes)) or "-"


def _by_value(effect: Effect, separator: str, infinite: str) -> str:
    pairs = [
        f"{value}: {three_digits(m, infinite)} (n = {effect.counts[value]})" for value, m in effect.medians.items()
    ]
    return separator.join(pairs) if 0 < len(pairs) < effect.n else "-"


def _share(importance: float) -> str:
    return "-" if math.isnan(importance) else f"{importance:.2f}"


def _p(p: float) -> str:
    return "-" if math.isnan(p) else f"{p:.2g}"


def _missing(what: str, reasons: Iterable[tuple[str, str | None]]) -> list[str]:
    """A sentence for each reason, naming the keys it is about."""
    keys: dict[str, list[str]] = {}
    for key, reason in reasons:
        if reason is not None and key not in keys.setdefault(reason, []):
            keys[reason].append(key)
    return [f"{what}: not given for {', '.join(names)}: {reason}." for reason, names in keys.items()]
