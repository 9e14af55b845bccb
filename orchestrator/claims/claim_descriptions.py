"""Describe claims: the compared value, the question, the effect with its interval."""

import math
from collections.abc import Mapping, Sequence

from orchestrator.claims.seed_tests import Answer
from orchestrator.text.wording import format_ranges
from search_spaces.grammar.claims import Arm, Claim, Lengths, SeedThreshold


def describe_metrics(metrics: Sequence[str]) -> str:
    """Return metrics as text: ["read_error", "read_error.dense"] -> "mean of read error and read error (dense)".

    Metrics that differ only in a final number: ["digit_1", "digit_2"] -> "mean of digit 1-2".
    """
    heads, _, numbers = zip(*(metric.replace("_", " ").rpartition(" ") for metric in metrics), strict=True)
    if len(metrics) > 1 and len(set(heads)) == 1 and all(number.isdigit() for number in numbers):
        return f"mean of {heads[0]} {format_ranges([int(number) for number in numbers])}"

    # The part after a dot is the distribution of the inputs.
    names = []
    for metric in metrics:
        name, dot, distribution = metric.replace("_", " ").partition(".")
        names.append(f"{name} ({distribution})" if dot else name)
    return names[0] if len(names) == 1 else f"mean of {', '.join(names[:-1])} and {names[-1]}"


def describe_value(claim: Claim, name: str) -> str:
    """Return the value of a seed in an arm as text: metric, lengths, the subtracted arm and the divisor."""
    # A subtracted arm usually has the same metrics, which are named once.
    arm = claim.arms[name]
    quantity = _describe_arm_metrics(claim, arm)
    minus = ""
    if arm.minus is not None:
        other = _describe_arm_metrics(claim, claim.arms[arm.minus])
        minus = f", minus that of {arm.minus}" if other == quantity else ""
        quantity += f" minus {other}" if other != quantity else ""

    prefix = {"min": "the smallest ", "max": "the largest "}.get(arm.reduce or claim.reduce, "")
    prefix = prefix or ("the " if quantity.startswith("mean of") else "")
    lengths = describe_lengths(claim.lengths if arm.lengths is None else arm.lengths)
    over = f", over {describe_value(claim, arm.over)}" if arm.over is not None else ""
    return f"{prefix}{quantity} at {lengths}{minus}{over}"


def label_axis(claim: Claim, names: Sequence[str]) -> str:
    """Return the label of the axis for these arms."""
    labels = list(dict.fromkeys(_label_arm(claim, claim.arms[name]) for name in names))
    return labels[0] if len(labels) == 1 else describe_metrics(claim.metric)


def _label_arm(claim: Claim, arm: Arm) -> str:
    """Return the short label of an arm's value: metrics, the subtracted arm and the divisor, without lengths."""
    # A label has no room for several metrics, which are counted instead.
    metrics = arm.metric or claim.metric
    quantity = _describe_arm_metrics(claim, arm)
    names = {metric.partition(".")[0] for metric in metrics}
    if len(metrics) > 1 and len(names) == 1:
        quantity = f"{describe_metrics(metrics[:1])}, mean of {len(metrics)} kinds of inputs"
    elif len(metrics) > 1:
        quantity = f"mean of {len(metrics)} metrics"

    if arm.minus is not None:
        other = _describe_arm_metrics(claim, claim.arms[arm.minus])
        quantity = f"difference of {quantity}" if other == quantity else f"{quantity} − {other}"
    if arm.over is not None:
        other = _describe_arm_metrics(claim, claim.arms[arm.over])
        ratio = f"({quantity}) / {other}" if arm.minus else f"{quantity} / {other}"
        quantity = f"ratio of {quantity}" if other == quantity else ratio
    return quantity


def _describe_arm_metrics(claim: Claim, arm: Arm) -> str:
    """Return the metrics of an arm as text."""
    return describe_metrics(arm.metric or claim.metric)


def describe_lengths(lengths: Lengths) -> str:
    """Return a group of lengths or listed lengths as text: (7, 8) -> "lengths 7-8"."""
    if isinstance(lengths, str):
        return f"{lengths} lengths"
    return f"length{'s' if len(lengths) > 1 else ''} {format_ranges(lengths)}"


def describe_question(claim: Claim) -> str:
    """Return the question of a claim as a sentence."""
    # A value that both arms share is named once.
    first, second = claim.compare[0], claim.compare[-1]
    values = [describe_value(claim, name) for name in claim.compare]
    quantity = values[0]
    is_shared = values[0] == values[-1]
    first_side, second_side = (f"{name} ({value})" for name, value in ((first, values[0]), (second, values[-1])))
    direction = {"smaller": "fewer", "larger": "more"}.get(claim.expect or "", "")

    # Every kind of question has its sentence; the sentence of a trend is below the match.
    match claim.question:
        case "difference" if is_shared:
            mean = ", on average over seeds," if claim.statistic == "mean" else ""
            return f"Is {quantity}{mean} {claim.expect} with {first} than with {second}?"
        case "difference":
            return f"Is {first_side} {claim.expect} than {second_side}?"
        case "ratio" if is_shared:
            return f"Is {quantity} with {first}, over that with {second}, {claim.expect} than {claim.bound or 1:g}?"
        case "ratio":
            return f"Is {first_side}, over {second_side}, {claim.expect} than {claim.bound or 1:g}?"
        case "bound":
            return f"Is the median over seeds of {quantity}, with {first}, {claim.expect} than {claim.bound or 0:g}?"
        case "equivalence":
            center = f"{claim.around or 0:g}"
            reference = center if len(claim.compare) == 1 else f"that with {second}" if is_shared else second_side
            return f"Is {quantity} with {first} within ±{claim.within or 0:g} of {reference}?"
        case "share":
            bound = 0.5 if claim.bound is None else claim.bound
            seeds = f"{direction} than {100 * bound:g} % of the seeds of {first}"
            return f"Do {seeds} have {quantity} {describe_bound(claim.success)}?"
        case "fisher":
            return f"Do {direction} seeds of {first} than of {second} have {quantity} {describe_bound(claim.success)}?"
    condition = ", other searched values held fixed" if claim.hold_others else ""
    contrast = f"as {claim.key} grows" if claim.category is None else f"with {claim.key} {claim.category}"
    return f"Does {quantity} get {claim.expect} {contrast}{condition}?"


def describe_bound(threshold: SeedThreshold | None) -> str:
    """Return a threshold as text: "of at least 0.9"."""
    assert threshold is not None
    if threshold.least is not None:
        return f"of at least {threshold.least:g}"
    return f"of at most {threshold.most:g}"


def name_effect(claim: Claim) -> str:
    """Return the name of the effect that answers the question."""
    # Questions without a case are about a single arm.
    first, second = claim.compare[0], claim.compare[-1]
    match claim.question:
        case "difference" | "equivalence" if first != second:
            statistic = claim.statistic or "median"
            if claim.unit is not None:
                return f"{first} minus {second}, median over {claim.unit}, each the median of its seeds"
            return f"{first} minus {second}, {statistic} over seeds"
        case "ratio":
            return f"{first} over {second}, median over seeds"
        case "fisher":
            return f"Share of seeds of {first} minus that of {second}"
        case "share":
            return f"Share of seeds of {first}"
        case "trend":
            return "Effect in standard deviations of ranks" if claim.hold_others else "Rank correlation"
    return f"{first}, median over seeds"


def describe_counts(claim_counts: Mapping[str, int], test_counts: Mapping[str, int], source: str) -> str:
    """Return the verdicts of the claims of a source, and of their tests if those are more; empty without claims."""

    def describe(subject: str, counts: Mapping[str, int]) -> str:
        listing = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
        return f"{subject} ({sum(counts.values())}): {listing}."

    if not claim_counts:
        return ""
    sentence = describe("Claims of the paper" if source == "paper" else "Claims of this study", claim_counts)
    has_more_tests = sum(test_counts.values()) > sum(claim_counts.values())
    return f"{sentence} {describe('Their tests', test_counts)}" if has_more_tests else sentence


def format_effect(claim: Claim, answer: Answer | None) -> str:
    """Return the effect with its interval and the number of values as text; "-" without an effect."""
    if answer is None or math.isnan(answer.effect):
        return "-"

    # Differences have a sign, ratios and shares have none.
    is_signed = claim.question in ("difference", "trend", "fisher")
    is_signed |= claim.question == "equivalence" and len(claim.compare) == 2
    effect, low, high = (f"{x:+.3g}" if is_signed else f"{x:.3g}" for x in (answer.effect, answer.low, answer.high))
    if answer.least_effect < answer.effect:  # failed seeds that may have any value leave a range of effects
        smallest = f"{answer.least_effect:+.3g}" if is_signed else f"{answer.least_effect:.3g}"
        effect = f"{smallest} or more" if math.isinf(answer.effect) else f"between {smallest} and {effect}"

    interval = "no interval" if math.isnan(answer.low) else f"[{low}, {high}]"
    ran = f" of {answer.n_trained}" if answer.n_trained > answer.n else ""
    detail = f" ({answer.detail})" if answer.detail else ""
    return f"{effect} {interval}, n = {answer.n}{ran} {answer.unit}{detail}"
