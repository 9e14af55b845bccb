"""Write the sentences on two sweeps: their descriptions, their differences, and which exceed seed noise."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

from orchestrator.code.user_code import PROGRAM
from orchestrator.engine.environment import MODULE
from orchestrator.report.tables.seed_comparison_table import count_pairs_needed, describe_failed_pairs
from orchestrator.results.comparing.seed_comparisons import SeedComparison
from orchestrator.results.comparing.sweep_comparison import SweepComparison
from orchestrator.results.summary import Summary
from orchestrator.statistics.exact_tests import ALPHA
from orchestrator.statistics.intervals import LEVEL, count_needed_values
from orchestrator.text.wording import (
    compact_value,
    format_count,
    format_lengths,
    format_number,
    format_ranges,
    join_first_few,
    shorten_keys,
)

MAX_DIFFERING_KEYS = 12  # in a sentence
MAX_VALUE_CHARACTERS = 60


def describe_sweep(summary: Summary) -> str:
    """Return name, folder, and numbers of configurations and seeds of a sweep as text."""
    done = f"{summary.complete_configurations} of {format_count(summary.planned_configurations, 'configuration')} done"
    return f"{summary.name} in {summary.folder} ({done}; {summary.seeds_run} seeds ran, {summary.seeds_failed} failed)"


def describe_differences(sweep_comparison: SweepComparison) -> str:
    """Return the keys in which two sweeps differ, with both values, except for code, whose values are digests."""
    differing = {**sweep_comparison.specification, **sweep_comparison.environment}
    values = [f"{key} {_shorten_value(first)} / {_shorten_value(second)}" for key, (first, second) in differing.items()]
    values += [f"code of {'the program' if key == f'{MODULE}{PROGRAM}' else key}" for key in sweep_comparison.code]
    return join_first_few(values, MAX_DIFFERING_KEYS) if values else "nothing that was recorded"


def _shorten_value(value: Any) -> str:
    """Return a value as text, ascending integers as spans, cut off after MAX_VALUE_CHARACTERS."""
    are_integers = isinstance(value, list | tuple) and value and all(type(number) is int for number in value)
    text = format_ranges(value) if are_integers and list(value) == sorted(value) else compact_value(value)
    return text if len(text) <= MAX_VALUE_CHARACTERS else f"{text[: MAX_VALUE_CHARACTERS - 3]}..."


def describe_matching(sweep_comparison: SweepComparison) -> str:
    """Return how configurations were matched, and how many are left out, as a sentence without a full stop."""
    matching = sweep_comparison.matching
    keys = ", ".join(shorten_keys(matching.keys).values())
    matched = format_count(len(matching.pairs) + matching.unfinished + matching.pruned, "configuration")
    sentence = f"{matched} with equal searched values ({keys})" if keys else f"{matched} in both, nothing was searched"
    if matching.unmatched_keys:
        names = ", ".join(shorten_keys(matching.unmatched_keys).values())
        sentence = f"{matched} with equal {keys}; they also differ in {names}, which may cause any difference"

    for count, side in ((matching.only_first, "first"), (matching.only_second, "second")):
        sentence += f"; only in the {side}: {count}" if count else ""
    sentence += f"; pruned in one of them, left out: {matching.pruned}" if matching.pruned else ""
    return sentence + (f"; not ended in both, left out: {matching.unfinished}" if matching.unfinished else "")


def describe_band(sweep_comparison: SweepComparison) -> str:
    """Return a sentence on the lengths at which the band excludes 0, or the reason if there is no band."""
    # Seeds that are too few for all lengths at once may be enough for one, so say how many a band needs.
    points = sweep_comparison.by_length
    if not points:
        return "No difference against length: the matched configurations have no common lengths."
    lengths = format_count(len(points), "length")
    outcome = points[0].outcome
    if not sweep_comparison.has_band:
        missing = next(comparison.outcome for comparison in points if math.isnan(comparison.outcome.low))
        required = count_needed_values(sweep_comparison.band_level)
        few = missing.paired and 0 < missing.n < required
        too_few = f"{format_count(missing.n, 'seed')} are too few for {lengths} at once (at least {required})"
        return f"No band against length: {too_few if few else missing.reason}."

    # Either sweep may be better, at different lengths.
    conclusive_by_name = {
        name: [comparison for comparison in points if comparison.verdict == side]
        for side, name in zip(("first", "second"), _name_sweeps(sweep_comparison), strict=True)
    }
    band = f"simultaneous {100 * LEVEL:g} % band over {lengths}, {format_count(outcome.n, 'paired seed')}"
    band += describe_failed_pairs(outcome)
    texts = [
        _describe_lengths(name, conclusive, points) for name, conclusive in conclusive_by_name.items() if conclusive
    ]
    answer = "; ".join(texts) or "at no length is the difference more than seed noise"
    return f"By length: {answer} ({band})."


def _describe_lengths(better: str, conclusive: Sequence[SeedComparison], points: Sequence[SeedComparison]) -> str:
    """Return the lengths at which a sweep is conclusively better: "NAME is better at lengths 8-11, by up to ..."."""
    # The largest difference decides the numbers of the sentence.
    largest = max(conclusive, key=lambda comparison: abs(comparison.outcome.difference))
    difference = format_number(abs(largest.outcome.difference))
    length = largest.question.lengths[0]

    # Without a better direction, name the lower sweep.
    relation = "lower" if largest.question.direction == "none" else "better"
    lengths = [comparison.question.lengths[0] for comparison in conclusive]
    scope = "all lengths" if len(conclusive) == len(points) else format_lengths(lengths)
    return f"{better} is {relation} at {scope}, by up to {difference} at length {length}"


def describe_differing(sweep_comparison: SweepComparison) -> Iterator[str]:
    """Yield a sentence on the matched configurations that differ after Holm's correction, at the first group."""
    # Only comparisons with a p at the first group of lengths count.
    tested = _list_tested(sweep_comparison)
    if not tested:
        return

    labels = {first.row.config_id: first.label for first, _ in sweep_comparison.matching.pairs}
    differing_labels = [labels[comparison.first] for comparison in tested if comparison.holm_p < ALPHA]
    group = tested[0].question.group
    lengths = sorted({length for comparison in tested for length in comparison.question.lengths})
    matched = format_count(len(tested), "matched configuration")
    sentence = f"Of {matched} {len(differing_labels) or 'none'} {'differs' if len(differing_labels) < 2 else 'differ'}"
    sentence += f" at the {format_lengths(lengths, group)} with p < {ALPHA:g} after Holm's correction"
    sign = -1 if tested[0].question.direction == "maximize" else 1
    better = sum(sign * comparison.outcome.difference < 0 for comparison in tested if comparison.holm_p < ALPHA)
    verdict = "lower" if tested[0].question.direction == "none" else "better"
    first, second = _name_sweeps(sweep_comparison)
    count = len(differing_labels)
    where = "there" if count == 1 else f"in {'all' if better in (0, count) else better} of them"
    winner = f"{first if better else second} is {verdict} {where}"
    examples = f": {join_first_few(differing_labels, 8)}; {winner}" if differing_labels else ""
    needed = count_pairs_needed(tested)
    yield f"{sentence}{examples}{f' (that takes {needed} pairs of seeds)' if needed else ''}."


def list_differing(sweep_comparison: SweepComparison) -> list[SeedComparison]:
    """Return the matched configurations that differ after Holm's correction at the first group of lengths.

    The largest difference comes first.
    """
    tested = _list_tested(sweep_comparison)
    differing = [comparison for comparison in tested if comparison.holm_p < ALPHA]
    return sorted(differing, key=lambda comparison: -abs(comparison.outcome.difference))


def _list_tested(sweep_comparison: SweepComparison) -> list[SeedComparison]:
    """Return the comparisons of matched configurations that have a p, at the first group of lengths."""
    tested = [comparison for comparison in sweep_comparison.configurations if not math.isnan(comparison.holm_p)]
    return [comparison for comparison in tested if comparison.question.group == tested[0].question.group]


def _name_sweeps(sweep_comparison: SweepComparison) -> tuple[str, str]:
    """Return the names of both sweeps for use in a sentence."""
    return distinguish_names(
        [sweep_comparison.first.name, sweep_comparison.second.name], ("the first sweep", "the second sweep")
    )


def distinguish_names(names: Sequence[str], substitutes: tuple[str, str] = ("First", "Second")) -> tuple[str, str]:
    """Return two names, or the substitutes if they are equal."""
    first, second = names
    return (first, second) if first != second else substitutes
