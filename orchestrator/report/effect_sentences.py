"""Write the sentence of a report on effects: which hyperparameters mattered, in which direction, and by how much."""

import math
import operator
import statistics

from orchestrator.report.tables.effect_table import EffectLine, list_effect_lines
from orchestrator.results.analysis import compute_score_effects, explain_missing_effects, shows_effects
from orchestrator.results.summary import Summary
from orchestrator.statistics.effects.rank_effects import is_numeric
from orchestrator.text.wording import (
    compact_value,
    format_lengths,
    format_number,
    format_signed,
    join_first_few,
    shorten_keys,
)

MAX_SHOWN_EFFECTS = 3  # hyperparameters with a clear effect
MIN_FOR_HALVES = 5  # distinct values; fewer are named one by one
CONFOUNDED = "hyperparameters change together, so none can be judged alone"


def describe_effects(summary: Summary, *, with_values: bool = True) -> str:
    """Return a sentence on the hyperparameters with a clear effect on the score, or the reason if there are none.

    With `with_values`, or for a single hyperparameter, it has the median scores below and above the middle value. Only
    one interval of each hyperparameter, or of each value, counts: intervals at other lengths and of slopes would be
    further chances to exclude 0.
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

    # If several values of a key differ clearly from the first, the best one represents the key.
    sign = -1.0 if summary.objective.direction == "minimize" else 1.0
    clear = dict[str, tuple[str, str]]()
    gains = {id(line): sign * line.difference.median if line.difference else 0.0 for line in lines}
    for line in sorted(lines, key=lambda line: -gains[id(line)] if math.isfinite(gains[id(line)]) else 0.0):
        if effect := _describe_clear(summary, line, names[line.effect.key]):
            clear.setdefault(names[line.effect.key], effect)

    # Clear effects come first; those that the medians of both halves do not show come last.
    rest = [name for name in names.values() if name not in clear]
    if not clear:
        unclear = join_first_few(rest)
        return f"No hyperparameter has a clear effect on the score: every 95 % interval contains 0 ({unclear})."
    halves = {name: _compute_half_medians(summary, key) for key, name in names.items() if name in clear}
    small = {name: medians for name, medians in halves.items() if medians and _look_equal(summary, medians)}
    small_text = join_first_few([f"{name} (medians differ by {abs(b - a):.1g})" for name, (a, b, _) in small.items()])
    inconclusive = f"; inconclusive: {join_first_few(rest)}" if rest else ""
    if len(small) == len(clear):
        return f"No effect on the score shows at three digits: {small_text}{inconclusive}."

    # A screen has the median scores of a single effect only.
    with_sizes = with_values or len(clear) - len(small) == 1
    shown = join_first_few(
        [
            f"{clear[name][0]} ({_describe_halves(summary, medians) if with_sizes and medians else ''}{clear[name][1]})"
            for name, medians in halves.items()
            if name not in small
        ],
        MAX_SHOWN_EFFECTS,
    )
    too_small = f"; too small to show at three digits: {small_text}" if small else ""
    return f"What mattered at {format_lengths(lines[0].outcome.lengths)}: {shown}{inconclusive}{too_small}."


def _describe_clear(summary: Summary, line: EffectLine, name: str) -> tuple[str, str] | None:
    """Return an effect as text, "higher dropout is worse", and its size; None unless its interval excludes 0."""
    # A line has a difference, a slope, or a correlation.
    if line.difference:
        better = line.difference.value
        measure = "difference"
        value = line.difference.median
        low, high = line.difference.low, line.difference.high
    elif line.value and line.slope:  # a value of a categorical key
        better = line.value
        measure = "standardized slope"
        value = line.slope.coefficient
        low, high = line.slope.low, line.slope.high
    else:
        better = line.value or "higher"
        measure = "rank correlation"
        value = line.effect.correlation
        low, high = line.effect.low, line.effect.high
    if low <= 0 <= high or math.isnan(low):
        return None

    rises = "worse" if summary.objective.direction == "minimize" else "better"
    falls = "better" if rises == "worse" else "worse"
    than = f" than {line.difference.against}" if line.difference else ""
    subject = f"{better} {name}" if better == "higher" else f"{name} {better}"
    value_text, low_text, high_text = map(format_signed, (value, low, high))
    size = f"{measure} {value_text}, 95 % [{low_text}, {high_text}]"
    return f"{subject} is {rises if value > 0 else falls}{than}", size


def _compute_half_medians(summary: Summary, key: str) -> tuple[float, float, float] | None:
    """Return the median scores under and over the middle value of a numeric key, and this value; None for others."""
    scores = [
        (row.values[key], row.score)
        for row in summary.rows
        if row.is_complete and row.score is not None and key in row.values
    ]
    if not is_numeric([value for value, _ in scores]) or len({value for value, _ in scores}) < MIN_FOR_HALVES:
        return None
    middle = statistics.median(value for value, _ in scores)
    halves = [
        [score for value, score in scores if is_in_half(value, middle)] for is_in_half in (operator.lt, operator.gt)
    ]
    if not all(halves):
        return None
    low, high = map(statistics.median, halves)
    return low, high, middle


def _look_equal(summary: Summary, medians: tuple[float, float, float]) -> bool:
    """Return whether the median scores of both halves are finite and the same as text."""
    low, high, _ = medians
    texts = {format_number(median, summary.infinity_text) for median in (low, high)}
    return len(texts) == 1 and math.isfinite(low) and math.isfinite(high)


def _describe_halves(summary: Summary, medians: tuple[float, float, float]) -> str:
    """Return the median scores under and over the middle value of a key as text."""
    low, high = (format_number(median, summary.infinity_text) for median in medians[:2])
    middle = compact_value(medians[2])
    if low == high:  # both infinite
        return f"median {low} both under and over {middle}; "
    return f"median {low} if under {middle}, {high} if over; "
