"""The table of comparisons of configurations over their seeds, its notes, and the verdict."""

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from operator import attrgetter

from orchestrator.report.tables.columns import (
    Column,
    Columns,
    Records,
    format_interval,
    format_p,
    make_records,
    parse_columns,
)
from orchestrator.results.comparing.questions import REQUESTED
from orchestrator.results.comparing.seed_comparisons import SeedComparison
from orchestrator.statistics.exact_tests import ALPHA, MAX_EXACT_RANKS, count_needed_pairs
from orchestrator.statistics.intervals import LEVEL, MIN_FOR_MEDIAN
from orchestrator.statistics.two_samples import TwoSamples
from orchestrator.text.wording import (
    format_count,
    format_lengths,
    format_metric,
    format_number,
    format_ranges,
    format_signed,
)

MAX_DIFFERING_LINES = 5  # matched configurations on a terminal
MAX_VALUES = 2  # searched values beside a label; with more keys none are shown
POLICIES = {
    "worst": "A failed seed counts as the worst value: its differences are infinite. Seeds that failed in both tie.",
    "exclude": "A seed that failed in one of the two is left out of their comparison.",
    "fail": "A configuration with a failed seed is not compared.",
}


def make_comparison_columns(comparisons: Sequence[SeedComparison], infinity_text: str = "inf") -> Columns:
    """Return the columns of comparisons over seeds; page and terminal add the names of the configurations.

    Differences are first - second. The last columns of a CSV file have the resolved keys in which the two differ, as
    JSON with null for a missing key.
    """
    corrected = any(comparison.tests > 1 for comparison in comparisons)
    failed = any(comparison.first_failed or comparison.second_failed for comparison in comparisons)

    # Texts that need more than one attribute, or other digits than three.
    def describe_medians(comparison: SeedComparison) -> str:
        return ", ".join(
            format_number(value, infinity_text) for value in (comparison.first_median, comparison.second_median)
        )

    def read_values(side: int) -> Callable[[SeedComparison], str]:
        return lambda comparison: json.dumps(
            {key: values[side] for key, values in comparison.shared.differing.items()}, ensure_ascii=False
        )

    return [
        # The page joins several values in a cell; the CSV file has them apart, in columns without a heading.
        *parse_columns("family group=question.group"),
        Column(
            "at lengths",
            lambda comparison: format_ranges(comparison.question.lengths),
            "lengths",
            lambda comparison: f"{comparison.question.group} {format_ranges(comparison.question.lengths)}",
        ),
        *parse_columns("metric=question.metric average=question.average first second first_median second_median"),
        Column("medians", describe_medians),
        *parse_columns("paired=outcome.paired n=outcome.n"),
        Column(
            "",
            lambda comparison: comparison.outcome.n if comparison.outcome.paired else comparison.outcome.n_second,
            "n_second",
        ),
        Column("difference", attrgetter("outcome.difference"), "difference", _describe_difference),
        *parse_columns("low=outcome.low high=outcome.high level=outcome.level mean_difference=outcome.mean"),
        Column("seeds", _count_seeds),
        Column("first better", attrgetter("first_better_count"), "first_better"),
        Column("", attrgetter("second_better_count"), "second_better"),
        Column("failed" if failed else "", lambda comparison: f"{comparison.first_failed}, {comparison.second_failed}"),
        Column("", lambda comparison: comparison.outcome.ties if comparison.outcome.paired else None, "ties"),
        Column("p", attrgetter("outcome.p"), "p", lambda comparison: format_p(comparison.outcome.p)),
        *parse_columns("smallest_p=outcome.smallest_p"),
        Column(
            "p (Holm)" if corrected else "",
            attrgetter("holm_p"),
            "holm_p",
            lambda comparison: format_p(comparison.holm_p),
        ),
        *parse_columns("tests first_seeds second_seeds first_failed second_failed"),
        *parse_columns("shared=shared.sentence missing=outcome.reason"),
        Column("", read_values(0), "first_values"),
        Column("", read_values(1), "second_values"),
    ]


def make_comparison_records(comparisons: Sequence[SeedComparison]) -> Records:
    """Return a line of seed_comparisons.csv for every comparison."""
    return make_records(comparisons, make_comparison_columns(comparisons))


def list_difference_notes(comparisons: Sequence[SeedComparison]) -> list[str]:
    """Return notes on the pairing of seeds, on assumptions of intervals and tests, and on failed seeds."""
    # Tests and intervals depend on the pairing, so it comes first.
    notes = []
    pairings = Counter(map(_describe_pairing, comparisons))
    for pairing, count in pairings.items():
        notes.append(f"{pairing}." if len(pairings) == 1 else f"{pairing} ({count} of {len(comparisons)} lines).")

    # Only paired seeds have intervals.
    if paired := [comparison for comparison in comparisons if comparison.outcome.paired and comparison.outcome.n]:
        without_interval = any(math.isnan(comparison.outcome.low) for comparison in paired)
        too_few = f"; none with fewer than {MIN_FOR_MEDIAN} pairs" if without_interval else ""
        notes.append(f"Difference: the median over pairs of seeds, with an exact {100 * LEVEL:g} % interval{too_few}.")
    if any(not comparison.outcome.paired for comparison in comparisons):
        notes.append(
            "Unpaired seeds: the difference of the medians; an interval would assume the same spread of both "
            "configurations."
        )

    # A comparison without p has its reason instead.
    notes += _describe_tests([comparison for comparison in comparisons if not math.isnan(comparison.outcome.p)])
    if any(comparison.first_failed or comparison.second_failed for comparison in comparisons):
        notes.append(POLICIES[comparisons[0].question.policy])
    missing = {comparison.outcome.reason for comparison in comparisons if math.isnan(comparison.outcome.p)}
    return notes + [f"Not compared: {reason}." for reason in sorted(filter(None, missing))]


def describe_sign(comparisons: Sequence[SeedComparison], first: str, second: str) -> str:
    """Return the order of subtraction, and the sign with which the first is better, as the title of a table."""
    question = comparisons[0].question
    better_side = {"minimize": "below", "maximize": "above"}.get(question.direction)
    sign = f"; {better_side} 0, {first} is better" if better_side else ""
    return f"Differences in {format_metric(question.metric, question.average)}: {first} minus {second}{sign}"


def describe_verdict(
    comparison: SeedComparison, first: str, second: str, *, with_metric: bool = True, is_favoured: bool = False
) -> str:
    """Return a sentence that says whether the first is better or worse, and the difference, or that it is inconclusive.

    The difference is first minus second. `with_metric` names the metric. With `is_favoured`, which means that the same
    seeds chose one of them, the first is only ahead or behind.
    """
    # Equal values usually mean that the same program was trained twice.
    outcome, question = comparison.outcome, comparison.question
    metric = format_metric(question.metric, question.average)
    kind = "" if question.group == REQUESTED else question.group
    where = f"at the {format_lengths(question.lengths, kind)}"

    # No verdict: there is no difference, or failed seeds make it infinite.
    if math.isnan(outcome.difference):
        return f"No verdict {where}: {outcome.reason}."
    has_failed = comparison.first_failed or comparison.second_failed  # else a seed has never reached the metric
    if has_failed and math.isinf(outcome.difference) and math.isnan(outcome.low):
        failed = f"{comparison.first_failed} of {first} and {comparison.second_failed} of {second}"
        return f"No verdict {where}: seeds failed ({failed}), and {outcome.reason}{describe_failed_pairs(outcome)}."

    # Equal values: all pairs tie.
    finished = outcome.n - outcome.both_failed
    if outcome.paired and finished > 1 and outcome.ties == outcome.n:
        pairs = f"all {finished} pairs of seeds"
        if outcome.both_failed:
            pairs = (
                f"the {finished} pairs of seeds that finished; "
                f"{format_count(outcome.both_failed, 'pair')} failed on both sides"
            )
        judged = "Inconclusive" if comparison.is_at_end else "No difference"
        judged = judged if finished >= MIN_FOR_MEDIAN else "No verdict"
        return (
            f"{judged} {where}: {metric} of {first} and {second} is equal in {pairs}{describe_metric_end(comparison)}."
        )

    # All other verdicts show the difference and its evidence.
    failed_pairs = describe_failed_pairs(outcome)
    infinite_ends = [format_signed(end) for end in (outcome.low, outcome.high) if math.isinf(end)]
    infinity = f"; {', '.join(infinite_ends)}: {'failed seeds' if has_failed else 'never reached'}"
    evidence = f"{100 * LEVEL:g} % interval, {format_count(outcome.n, 'pair')} of seeds{failed_pairs}"
    evidence += infinity if infinite_ends else ""
    difference = f"{first} minus {second}{f' in {metric}' if with_metric else ''} is {_describe_difference(comparison)}"
    if comparison.verdict in ("equal", "inconclusive"):
        judged = "No difference" if comparison.verdict == "equal" else "Inconclusive"
        why = f" ({evidence})"
        if math.isnan(outcome.low):
            judged = "No verdict"
            why = f", but {outcome.reason}{failed_pairs}"
        return f"{judged} {where}: {difference}{why}{describe_metric_end(comparison)}."

    # The first configuration stands first, because the difference has the sign that it has in every table.
    if question.direction == "none":
        relations = ("lower than", "higher than")
    else:
        relations = ("ahead of", "behind") if is_favoured else ("better than", "worse than")
    relation = relations[comparison.verdict == "second"]
    return f"{first} is {relation} {second} {where}: {difference} ({evidence})."


def describe_metric_end(comparison: SeedComparison) -> str:
    """Return that both medians are at an end of the metric, as text to append; empty otherwise."""
    if not comparison.is_at_end:
        return ""
    return f"; both medians are {comparison.first_median:g}, where a difference can hardly show"


def describe_failed_pairs(outcome: TwoSamples) -> str:
    """Return how many of the counted pairs failed, as text to append to their number; empty if none did."""
    counts = {"on both sides": outcome.both_failed, "on one side": outcome.one_failed}
    texts = [f"{count} of them failed {where}" for where, count in counts.items() if count]
    return f"; {', '.join(texts)}" if texts else ""


def count_pairs_needed(tested: Sequence[SeedComparison]) -> int | None:
    """Return how many pairs of seeds a p below ALPHA needs; None if there are enough or seeds are unpaired."""
    if any(
        not comparison.outcome.paired or comparison.tests * comparison.outcome.smallest_p < ALPHA
        for comparison in tested
    ):
        return None
    needed = count_needed_pairs(max(comparison.tests for comparison in tested))
    return needed if max(comparison.outcome.n for comparison in tested) < needed else None


def _describe_difference(comparison: SeedComparison) -> str:
    return format_interval(comparison.outcome.difference, comparison.outcome.low, comparison.outcome.high)


def _count_seeds(comparison: SeedComparison) -> str:
    outcome = comparison.outcome
    if not outcome.paired:
        return f"{outcome.n} and {outcome.n_second}"
    failed = f", {outcome.both_failed} failed in both" if outcome.both_failed else ""
    return format_count(outcome.n, "pair") + failed


def _describe_pairing(comparison: SeedComparison) -> str:
    """Return as text whether and why the seeds of two configurations were paired, without a full stop."""
    streams = comparison.shared.sentence
    if not comparison.outcome.paired:
        why = "have different seeds" if comparison.shared.is_paired else f"may share no random numbers: {streams}"
        return f"Not paired: the two {why}"
    alone = f"; {format_count(comparison.unmatched, 'seed')} without a pair left out" if comparison.unmatched else ""
    return f"Paired {streams}{alone}" if comparison.shared.by_number else f"Paired by seed: {streams}{alone}"


def _describe_tests(tested: Sequence[SeedComparison]) -> list[str]:
    """Return a sentence on the tests behind p, their correction, and the number of seeds that they need."""
    if not tested:
        return []

    # Exact tests of few seeds have a smallest p, which may be above any usual level.
    pairings = {comparison.outcome.paired for comparison in tested}
    unpaired = [comparison for comparison in tested if not comparison.outcome.paired]
    kinds = [name for paired, name in ((True, "sign test"), (False, "rank-sum test")) if paired in pairings]
    smallest = format_p(min(comparison.outcome.smallest_p for comparison in tested))
    tests = max(comparison.tests for comparison in tested)
    has_ties = any(comparison.outcome.paired and comparison.outcome.ties for comparison in tested)
    assumed = " (ties count for both sides)" if has_ties else ""
    if any(comparison.outcome.n + (comparison.outcome.n_second or 0) > MAX_EXACT_RANKS for comparison in unpaired):
        assumed += f" (ranks of more than {MAX_EXACT_RANKS} seeds count as normal)"
    sentence = f"p: exact two-sided {' or '.join(kinds)}{assumed}; with these seeds it is at least {smallest}"
    if needed := count_pairs_needed(tested):
        after = " after the correction" if tests > 1 else ""
        sentence += f", and below {ALPHA:g}{after} only with {needed} pairs or more"

    # Several comparisons at the same lengths are corrected for; the groups of lengths ask different questions.
    if tests > 1:
        sentence += f"; p (Holm): corrected for {tests} comparisons, which intervals are not"
    elif len({comparison.question.group for comparison in tested}) > 1:
        sentence += "; not corrected for the number of groups of lengths"
    return [f"{sentence}."]
