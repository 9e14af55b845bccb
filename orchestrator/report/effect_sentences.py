"""Write the sentence of a report on effects: which hyperparameters mattered, in which direction, and by how much."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from orchestrator.report.failure_sentences import name_kinds
from orchestrator.report.tables.effect_table import EffectLine, list_effect_lines
from orchestrator.results.analysis import Effect, compute_score_effects, explain_missing_effects, shows_effects
from orchestrator.results.outcomes import collect_searched_values
from orchestrator.results.summary import Summary
from orchestrator.statistics.effects.rank_effects import MIDDLE_LEVEL, is_numeric, label_value
from orchestrator.statistics.intervals import LEVEL
from orchestrator.text.wording import (
    compact_value,
    format_lengths,
    format_number,
    format_signed,
    join_first_few,
    shorten_keys,
)

MAX_SHOWN_EFFECTS = 3  # hyperparameters with a clear effect, and clear values of each
MIN_FOR_HALVES = 5  # distinct values; fewer are named one by one
CONFOUNDED = "hyperparameters change together, so none can be judged alone"


@dataclass(frozen=True, kw_only=True)
class ClearEffect:
    """An effect whose interval excludes 0: `text` as "higher dropout is worse", `size` with the interval.

    `subject` is the hyperparameter, with the value of a grid that is compared: "dropout" or "lr 0.01". `medians` are
    the median scores of two groups of configurations, and `groups` says which: "under 0.3", "over". Empty for a key
    whose values are no numbers, or too few.
    """

    subject: str
    text: str
    size: str
    medians: tuple[float, ...] = ()
    groups: tuple[str, str] = ("", "")


def describe_effects(summary: Summary, *, with_values: bool = True) -> str:
    """Return a sentence on the hyperparameters with a clear effect on the score, or the reason if there are none.

    With `with_values`, or for a single hyperparameter, it has the median scores of the groups that are compared. Only a
    trend and a best value in the middle, or one interval of each value, count: intervals at other lengths and of slopes
    would be further chances to exclude 0.
    """
    # A sweep without effects has a sentence that says why.
    if summary.status == "running":
        return "The effects of hyperparameters are shown when the sweep has ended."
    if not shows_effects(summary):
        if reason := explain_missing_effects(summary):
            return reason
        # Rungs compared the configurations that they pruned, but these have no scores at the end of training.
        if summary.design.survivors and summary.complete_configurations == 1:
            return "The race pruned all other configurations, so no effect can be measured."
        return "No hyperparameter was compared, so it is unknown which matter."

    # An effect without an interval may be chance, so do not say that it matters.
    names = shorten_keys([effect.key for effect in compute_score_effects(summary)])
    on_score = [line for line in list_effect_lines(summary) if line.outcome.effects == compute_score_effects(summary)]
    lines = [line for line in on_score if line.effect.matched and line.intervals]
    if not lines:
        names_by_reason = dict[str, list[str]]()
        for score_effect in compute_score_effects(summary):
            reason = score_effect.reason if score_effect.matched else CONFOUNDED
            names_by_reason.setdefault(reason or "has no interval", []).append(names[score_effect.key])
        if len(names_by_reason) == 1:
            why = "no effect has an interval" if "has no interval" in names_by_reason else next(iter(names_by_reason))
        else:
            why = "; ".join(f"{join_first_few(keys)}: {reason}" for reason, keys in names_by_reason.items())
        return f"It is unknown which hyperparameters mattered: {why}."

    # Every value of a grid that differs clearly from the first is an effect, the best value first; a category has one.
    sign = -1.0 if summary.objective.direction == "minimize" else 1.0
    effects = {name: list[ClearEffect]() for name in names.values()}
    undecided = {name: list[str]() for name in names.values()}
    for line in sorted(lines, key=lambda line: -sign * line.difference.median if line.difference else 0.0):
        name = names[line.effect.key]
        if effect := _describe_clear(summary, line, name):
            if line.difference or not effects[name]:
                effects[name].append(effect)
        elif line.difference:
            undecided[name].append(_format_value(line.effect, line.value))

    # A trend over the values of a grid counts if none of them differs clearly from the first.
    for line in lines:
        name = names[line.effect.key]
        if line.difference and not effects[name] and (effect := _describe_trend(summary, line, name)):
            effects[name].append(effect)
            undecided[name].clear()

    # Clear effects come first, in the order of the space; those that the medians do not show come last.
    clear = [effect for name in effects for effect in effects[name]]
    if not clear:
        unclear = f"every 95 % interval of a trend or a difference contains 0 ({join_first_few([*effects])})"
        return f"No hyperparameter has a clear effect on the score: {unclear}{_describe_strongest(lines, names)}."
    small = [effect for effect in clear if _look_equal(summary, effect.medians)]
    small_text = join_first_few(
        [f"{effect.subject} (medians differ by {abs(effect.medians[1] - effect.medians[0]):.1g})" for effect in small]
    )
    rest = [
        f"{name} {join_first_few(undecided[name])}" if effects[name] else name
        for name in effects
        if undecided[name] or not effects[name]
    ]
    inconclusive = f"; inconclusive: {join_first_few(rest)}" if rest else ""
    if len(small) == len(clear):
        return f"No effect on the score shows at three digits: {small_text}{inconclusive}."

    # A screen has the median scores of a single effect only.
    with_sizes = with_values or len(clear) - len(small) == 1
    texts = [
        [
            f"{effect.text} ({_describe_medians(summary, effect) if with_sizes else ''}{effect.size})"
            for effect in effects[name]
            if effect not in small
        ]
        for name in effects
    ]
    shown = join_first_few([join_first_few(group, MAX_SHOWN_EFFECTS) for group in texts if group], MAX_SHOWN_EFFECTS)
    too_small = f"; too small to show at three digits: {small_text}" if small else ""
    return f"What mattered at {format_lengths(lines[0].outcome.lengths)}: {shown}{inconclusive}{too_small}."


def _format_value(effect: Effect, label: str) -> str:
    """Return the label of a value as text, numbers in few digits."""
    return compact_value(float(label)) if effect.kind == "numeric" else label


def _describe_clear(summary: Summary, line: EffectLine, name: str) -> ClearEffect | None:
    """Return the effect of a line; None unless its interval excludes 0."""
    effect = line.effect
    rises, falls = _name_directions(summary)

    # A value of a grid is compared with the first one; a category has a slope.
    if pair := line.difference:
        if not _excludes_zero(pair.low, pair.high):
            return None
        first, second = (effect.medians.get(label, math.nan) for label in (pair.value, pair.against))
        value, against = _format_value(effect, pair.value), _format_value(effect, pair.against)
        subject = f"{name} {value}"
        text = f"{subject} is {rises if pair.median > 0 else falls} than {against}"

        # An infinite difference has no size; it says that seeds of one value have no score.
        if math.isinf(pair.median):
            infinite_value, label = (value, pair.value) if math.isinf(first) else (against, pair.against)
            is_failure = summary.infinity_text == "inf"
            without_score = _name_failures(summary, effect.key, label) if is_failure else "never reached the metric"
            size = f"at least half of the seeds with {infinite_value} {without_score}"
            return ClearEffect(subject=subject, text=text, size=size)
        return ClearEffect(
            subject=subject,
            text=text,
            size=_describe_size("difference", pair.median, pair.low, pair.high),
            medians=() if math.isnan(first) or math.isnan(second) else (first, second),
            groups=(f"with {value}", f"with {against}"),
        )
    if line.value and (slope := line.slope):
        if not _excludes_zero(slope.low, slope.high):
            return None
        return ClearEffect(
            subject=name,
            text=f"{name} {line.value} is {rises if slope.coefficient > 0 else falls}",
            size=_describe_size("standardized slope", slope.coefficient, slope.low, slope.high),
        )

    return _describe_trend(summary, line, name)


def _name_failures(summary: Summary, key: str, label: str) -> str:
    """Return what the failed seeds with the value of this label did: crash, diverge, or both with their numbers."""
    values = collect_searched_values(summary)
    rows = [row for row in summary.rows if row.is_complete and key in values[row.config_id]]
    rows = [row for row in rows if label_value(values[row.config_id][key]) == label]
    crashed = sum(row.seeds_crashed for row in rows)
    return name_kinds(crashed, sum(row.seeds_failed for row in rows) - crashed)


def _describe_trend(summary: Summary, line: EffectLine, name: str) -> ClearEffect | None:
    """Return the trend of a numeric key, or else its best or worst value in the middle; None if neither is clear."""
    effect = line.effect
    rises, falls = _name_directions(summary)

    # A trend comes before a best value in the middle, because a trend says where to go on.
    if _excludes_zero(effect.low, effect.high):
        return ClearEffect(
            subject=name,
            text=f"higher {name} is {rises if effect.correlation > 0 else falls}",
            size=_describe_size("rank correlation", effect.correlation, effect.low, effect.high),
            **_compare_groups(summary, effect.key, _split_at_middle),
        )
    middle = effect.middle
    if _excludes_zero(middle.low, middle.high):
        return ClearEffect(
            subject=name,
            text=f"{name} is {'best' if (middle.value > 0) == (rises == 'worse') else 'worst'} in the middle",
            size=_describe_size(
                "rank correlation with the distance from it", middle.value, middle.low, middle.high, MIDDLE_LEVEL
            ),
            **_compare_groups(summary, effect.key, _split_off_middle),
        )
    return None


def _name_directions(summary: Summary) -> tuple[str, str]:
    """Return what a rising score is, and what a falling one is: "better" or "worse"."""
    return ("worse", "better") if summary.objective.direction == "minimize" else ("better", "worse")


def _describe_strongest(lines: Sequence[EffectLine], names: Mapping[str, str]) -> str:
    """Return the strongest of several unclear trends as text to append; empty without a trend."""
    trends = [line.effect for line in lines if not math.isnan(line.effect.low)]
    if not trends:
        return ""
    strongest = max(trends, key=lambda effect: abs(effect.correlation))
    size = _describe_size("rank correlation", strongest.correlation, strongest.low, strongest.high)
    return f"; the strongest trend: {names[strongest.key]}, {size}"


def _excludes_zero(low: float, high: float) -> bool:
    """Return whether an interval excludes 0; False without an interval, for NaN."""
    return low > 0 or high < 0


def _describe_size(measure: str, value: float, low: float, high: float, level: float = LEVEL) -> str:
    """Return a measure with its interval as text."""
    value_text, low_text, high_text = map(format_signed, (value, low, high))
    return f"{measure} {value_text}, {100 * level:.0f} % [{low_text}, {high_text}]"


Groups = tuple[tuple[str, str], Callable[[float], int | None]]
"""Two groups of the values of a key as text, and the group of a value: 0, 1, or None for neither."""


def _compare_groups(summary: Summary, key: str, split: Callable[[list[float]], Groups]) -> dict[str, Any]:
    """Return the median scores of the two groups of a numeric key as fields of ClearEffect; empty for other keys."""
    scores = [
        (row.values[key], row.score)
        for row in summary.rows
        if row.is_complete and row.score is not None and key in row.values
    ]
    values = [value for value, _ in scores]
    if not is_numeric(values) or len(set(values)) < MIN_FOR_HALVES:
        return {}
    texts, find_group = split(values)
    groups = [[score for value, score in scores if find_group(value) == number] for number in (0, 1)]
    return {"medians": tuple(map(statistics.median, groups)), "groups": texts} if all(groups) else {}


def _split_at_middle(values: list[float]) -> Groups:
    """Split values into those under and over the middle one."""
    middle = statistics.median(values)
    texts = (f"if under {compact_value(middle)}", "if over")
    return texts, lambda value: None if value == middle else int(value > middle)


def _split_off_middle(values: list[float]) -> Groups:
    """Split values into the middle half and the others."""
    ordered = sorted(values)
    low, high = ordered[len(ordered) // 4], ordered[-1 - len(ordered) // 4]
    texts = (f"from {compact_value(low)} to {compact_value(high)}", "outside")
    return texts, lambda value: int(not low <= value <= high)


def _look_equal(summary: Summary, medians: tuple[float, ...]) -> bool:
    """Return whether the median scores of both groups are finite and the same as text."""
    texts = {format_number(median, summary.infinity_text) for median in medians}
    return len(texts) == 1 and all(map(math.isfinite, medians))


def _describe_medians(summary: Summary, effect: ClearEffect) -> str:
    """Return the median scores of both groups as text, to be followed by more; empty without medians."""
    if not effect.medians:
        return ""
    first, second = (format_number(median, summary.infinity_text) for median in effect.medians)
    if first == second:  # both infinite
        return f"median {first} in both; "
    return f"median {first} {effect.groups[0]}, {second} {effect.groups[1]}; "
