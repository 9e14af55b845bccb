"""The effects of hyperparameters at the selection and at the test lengths, and notes on how to read them."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from orchestrator.results.analysis import (
    Effect,
    compute_score_effects,
    compute_test_effects,
)
from orchestrator.results.summary import Summary
from orchestrator.statistics.effects.partial_effects import Slope
from orchestrator.statistics.effects.within import Difference
from orchestrator.text.wording import format_ranges

UNIT_NOTES = {  # none for `random`, whose configurations are independent
    "grid_by_random": "Draws are counted, because grid points of a draw are not independent. A drawn key has one rank "
    "per draw, the mean over its grid points; the values of a grid key are compared within each draw.",
    "fixed": "Seeds are counted, because no configuration was drawn: values are compared seed by seed.",
}


@dataclass(frozen=True, kw_only=True)
class EffectsAtLengths:
    """A group of lengths, and the effect of every searched key on the outcome at these lengths."""

    group: str
    lengths: tuple[int, ...]
    effects: tuple[Effect, ...]

    @property
    def lengths_text(self) -> str:
        """The lengths with their group: "test 8-11"."""
        return f"{self.group} {format_ranges(self.lengths)}"


@dataclass(frozen=True, kw_only=True)
class EffectLine:
    """The effect of a key on an outcome, for one `value` if the key has a difference or a slope for each value."""

    outcome: EffectsAtLengths
    effect: Effect
    value: str = ""
    difference: Difference | None = None
    slope: Slope | None = None

    @property
    def intervals(self) -> list[tuple[float, float]]:
        """The intervals of the difference, or else of the correlation and the slope."""
        parts = (self.difference,) if self.difference else (self.effect, self.slope)
        ends = [(part.low, part.high) for part in parts if part is not None]
        return [pair for pair in ends if not math.isnan(pair[0])]

    @property
    def missing_reasons(self) -> str:
        """Why numbers are missing, as text."""
        effect = self.effect
        effect_column = "correlation" if effect.kind == "numeric" and not effect.differences else "effect"
        reasons = {
            effect_column: effect.reason,
            "partial": effect.partial.reason,
            "importance": effect.importance.reason,
        }
        return "; ".join(f"{column}: {why}" for column, why in reasons.items() if why)


def list_outcomes(summary: Summary) -> list[EffectsAtLengths]:
    """Return the effects at the selection lengths and, if there are any, at the test lengths."""
    score = EffectsAtLengths(
        group="selection", lengths=summary.objective.lengths, effects=compute_score_effects(summary)
    )
    test = EffectsAtLengths(group="test", lengths=summary.test_lengths, effects=compute_test_effects(summary))
    return [score, *([test] if test.effects else [])]


def list_effect_lines(summary: Summary) -> list[EffectLine]:
    """Return a line for each outcome, key and value with a difference or a slope."""
    lines = []
    for outcome in list_outcomes(summary):
        for effect in outcome.effects:
            # A value may have a difference, a slope, or both; a key without either has a line without a value.
            differences = {difference.value: difference for difference in effect.differences}
            slopes = {slope.value: slope for slope in effect.partial.slopes}
            lines += [
                EffectLine(
                    outcome=outcome,
                    effect=effect,
                    value=value,
                    difference=differences.get(value),
                    slope=slopes.get(value),
                )
                for value in dict.fromkeys([*differences, *slopes]) or [""]
            ]
    return lines


def list_effect_notes(summary: Summary) -> list[str]:
    """Return notes on the counted units, on how to read the effects, and on missing numbers."""
    # The counted units are independent; what they are depends on how the sweep was searched.
    higher = "worse" if summary.objective.direction == "minimize" else "better"
    effects = [effect for outcome in list_outcomes(summary) for effect in outcome.effects]
    unit, why = summary.design.unit, summary.design.dependence
    notes = [
        f"Outcomes: {summary.judged_name}, median over seeds, at the selection lengths and at the test lengths; + "
        f"means that a higher value has a higher ({higher}) outcome. An interval that contains 0 is inconclusive.",
    ]
    counted = f"No interval or test is given: {why}." if why else UNIT_NOTES.get(summary.design.kind, "")

    # Readers would take every interval that excludes 0 for an effect, so say how many do by chance.
    notes += filter(None, [counted, describe_chance(summary)])
    if not compute_test_effects(summary):
        notes.append("Configurations have no common test lengths.")

    # Explain only the kinds of numbers that the table has.
    if any(effect.differences for effect in effects):
        notes.append(
            f"Difference from the first value: the median over {unit} of the outcome at a value minus the outcome at "
            "the first, with equal values of all other compared keys. The interval is between two of these "
            f"differences, with a coverage of at least 95 % for any distribution. p is over the same {unit}."
        )
    if any(effect.differences and not math.isnan(effect.correlation) for effect in effects):
        notes.append(f"Rank correlation of a key with differences: the median of those computed within single {unit}.")
    if any(not math.isnan(effect.middle.low) for effect in effects):
        notes.append(
            "A best or worst value in the middle is shown if the rank correlation with the distance from the middle "
            "value has a 99 % interval without 0. Other shapes without a trend are not looked for."
        )
    if unmatched := list(dict.fromkeys(effect.key for effect in effects if not effect.matched)):
        notes.append(f"{', '.join(unmatched)}: other keys vary together with these, and may cause their effects.")
    if shown_slopes := [effect for effect in effects if list_slopes(summary, effect)]:
        counts = ", ".join(map(str, dict.fromkeys(effect.partial.n for effect in shown_slopes)))
        notes.append(
            "Standardized slope, others held: least squares on the ranks of all hyperparameters, in standard "
            f"deviations; n = {counts}."
        )
    if len(summary.searched) > 1:
        notes += _explain_missing(
            "Slope with the others held", [(e.key, e.partial.reason) for e in effects if not e.partial.slopes]
        )
    if any(not math.isnan(effect.importance.share) for effect in effects):
        notes.append(
            "Importance: the share of variance that a key explains alone, by fANOVA (a random forest on ranks). Shares "
            "add up to 1 even without any effect: trust a share only if an interval excludes 0."
        )
    return [*notes, *_explain_missing("Importance (fANOVA)", [(e.key, e.importance.reason) for e in effects])]


def describe_chance(summary: Summary) -> str:
    """Return a sentence on how many of the shown intervals exclude 0, and how many do by chance; empty without any."""
    # Groups are counted apart, because report.html shows the effects at one of them.
    outcomes, counts = list_outcomes(summary), []
    for outcome in outcomes:
        intervals = [ends for effect in outcome.effects for ends in list_shown_intervals(summary, effect)]
        conclusive = sum(low > 0 or high < 0 for low, high in intervals)
        does = "does" if conclusive == 1 else "do"
        where = f" at the {outcome.group} lengths" if len(outcomes) > 1 else ""
        counts += [f"{conclusive} of {len(intervals)} {does}{where}"] if intervals else []
    by_chance = "Without any effect, about one in 20 such intervals excludes 0 by chance"
    return f"{by_chance}; here {' and '.join(counts)}." if counts else ""


def list_slopes(summary: Summary, effect: Effect) -> tuple[Slope, ...]:
    """Return the slopes to show: none if the key is the only one and has a correlation, which such a slope repeats."""
    is_repeated = len(summary.searched) == 1 and not math.isnan(effect.correlation)
    return () if is_repeated else effect.partial.slopes


def list_shown_intervals(summary: Summary, effect: Effect) -> Iterator[tuple[float, float]]:
    """Yield the ends of every shown interval of an effect."""
    # Correlations, differences and slopes have intervals.
    ends = [(effect.low, effect.high)]
    ends += [(difference.low, difference.high) for difference in effect.differences]
    ends += [(slope.low, slope.high) for slope in list_slopes(summary, effect)]
    yield from (pair for pair in ends if not math.isnan(pair[0]))


def _explain_missing(column: str, reasons: Iterable[tuple[str, str | None]]) -> list[str]:
    """Return a sentence for each reason, with its keys."""
    keys: dict[str, dict[str, None]] = {}
    for key, reason in reasons:
        if reason is not None:
            keys.setdefault(reason, {})[key] = None
    return [f"{column}: none for {', '.join(names)}: {reason}." for reason, names in keys.items()]
