"""Effects of hyperparameters and of weight averages as text: columns of cells, and the sentences that go with them."""

import math
from collections.abc import Iterable

from orchestrator.report.tables import Columns, curve_name, interval
from orchestrator.results.evaluation_choice import BEST
from orchestrator.results.hyperparameter_effects import Effect, Partial
from orchestrator.results.summary import Summary
from orchestrator.wording import short_keys, spans, three_digits


def outcomes(result: Summary) -> list[tuple[str, tuple[Effect, ...]]]:
    """What effects are on: the score at the selection lengths, and the same metric at the test lengths."""
    found = [(f"selection {spans(result.objective.lengths)}", result.effects)]
    if result.test_effects:
        found.append((f"test {spans(result.test_lengths)}", result.test_effects))
    return found


SLOPE = "standardised slope, others held"


def effect_columns(result: Summary, full_names: bool = True, gap: str = " ", separator: str = ", ") -> Columns:
    """The effect of each searched key, a line for each outcome.

    `gap` stands between a number and its interval, `separator` between the values of a category.
    """
    short = short_keys([effect.key for effect in result.effects])
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
        f"{SLOPE} [95 %]": [_held_fixed(effect, gap, separator) for effect, _, _ in lines],
        "importance": [_share(effect.importance) for effect, _, _ in lines],
        "median by value": [_by_value(effect, separator, result.infinite) for effect, _, _ in lines],
    }
    return {name: cells for name, cells in columns.items() if set(cells) != {"-"}}


def effect_notes(result: Summary) -> list[str]:
    """How to read the effects, and why numbers are missing."""
    rises = "worse" if result.objective.direction == "minimize" else "better"
    notes = [
        f"Outcomes: {curve_name(result)}, median over seeds, at the selection lengths and at the test lengths; + means "
        f"that it rises with the hyperparameter, which is {rises}. An interval that holds 0 says that this sweep does "
        "not tell. Intervals are over configurations.",
    ]
    if not result.test_effects:
        notes.append("There are no test lengths that all configurations were evaluated at.")
    effects = [effect for _, found in outcomes(result) for effect in found]
    shown = [effect for effect in effects if effect.partial]
    if shown:
        notes.append(
            "Standardised slope, others held: least squares on the ranks of all hyperparameters at once, in standard "
            "deviations; n = " + ", ".join(map(str, dict.fromkeys(effect.partial_n for effect in shown))) + "."
        )
    notes += _missing("Slope with the others held", ((e.key, e.partial_reason) for e in effects if not e.partial))
    if any(not math.isnan(effect.importance) for effect in effects):
        notes.append(
            "Importance: the share of fANOVA (a random forest on ranks). Shares add up to 1 also where nothing has an "
            "effect, so believe one only beside an interval that excludes 0."
        )
    notes += _missing("Importance (fANOVA)", ((e.key, e.importance_reason) for e in effects))
    return notes


def comparison_columns(result: Summary, gap: str = " ") -> Columns:
    """Every weight average against the objective's on the same members, by group of lengths; `gap` before intervals."""
    pairs = result.comparisons
    return {
        "average": [one.average for one in pairs],
        "against": [one.against for one in pairs],
        "at lengths": [one.group for one in pairs],
        "members": [str(one.n) for one in pairs],
        "median difference [95 %]": [interval(one.difference, one.low, one.high, "#.3g", gap) for one in pairs],
        "quartiles": [
            "-" if math.isnan(one.q25) else f"{three_digits(one.q25)}, {three_digits(one.q75)}" for one in pairs
        ],
        "lower on" if result.objective.direction == "minimize" else "higher on": [str(one.better) for one in pairs],
        "higher on" if result.objective.direction == "minimize" else "lower on": [str(one.worse) for one in pairs],
        "n": [str(one.configurations) for one in pairs],
        "Wilcoxon p": [_p(one.wilcoxon_p) for one in pairs],
        "sign test p": [_p(one.sign_p) for one in pairs],
    }


def comparison_note(result: Summary) -> str:
    """How to read the comparison of averages."""
    chosen = " The evaluation of both is the one chosen by the objective's average."
    return (
        f"Differences of {result.objective.metric}, average minus the objective's ({result.objective.average}), of the "
        "same trained member. Interval and tests are over the n configurations: the tests take the median difference "
        "of each, because its seeds are not independent." + (chosen if result.objective.evaluation == BEST else "")
    )


def _alone(effect: Effect, gap: str) -> str:
    if effect.kind == "numeric":
        text = interval(effect.correlation, effect.low, effect.high, "+.2f", gap)
    else:
        text = "-" if math.isnan(effect.p) else f"Kruskal-Wallis{gap}p = {effect.p:.2g}"
    return text if not effect.reason else effect.reason if text == "-" else f"{text}{gap}({effect.reason})"


def _held_fixed(effect: Effect, gap: str, separator: str) -> str:
    def one(partial: Partial) -> str:
        text = interval(partial.coefficient, partial.low, partial.high, "+.2f", gap)
        return f"{partial.value}: {text}" if partial.value else text

    return separator.join(map(one, effect.partial)) or "-"


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
