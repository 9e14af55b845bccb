"""Compare two sweeps over their common configurations: each pair, all pairs together, and every length."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from orchestrator.errors import UserError
from orchestrator.results.comparing.questions import REQUESTED, Pair, find_common_lengths, make_questions
from orchestrator.results.comparing.seed_comparisons import (
    LENGTH_GROUPS,
    Question,
    SeedComparison,
    Side,
    average_configurations,
    collect_seed_values,
    compare_recorded_streams,
    compare_sides,
    compare_tables,
    correct_family,
    has_enough_pairs,
    replace_failed_seeds,
)
from orchestrator.results.comparing.shared_streams import SharedStreams, find_differing_values
from orchestrator.results.pack_environments import find_differing_environment
from orchestrator.results.program_defaults import add_defaults, list_program_defaults
from orchestrator.results.summary import ConfigurationResult, Summary
from orchestrator.statistics.intervals import LEVEL
from orchestrator.statistics.quartiles import compute_median_or_nan
from orchestrator.text.wording import format_command
from search_spaces import ABSENT
from search_spaces.grammar.domains import make_value_key
from search_spaces.grammar.sections import read_key
from search_spaces.grammar.spec import PASSIVE

MATCHED = "matched configurations"
TOGETHER = "all matched together"
EACH_LENGTH = "each length"
BEST_AGAINST_BEST = "best against best"


@dataclass(frozen=True, kw_only=True)
class Matching:
    """The configurations of two sweeps with the same values of `keys`.

    `unmatched_keys` are searched keys in which matched configurations may differ. `pairs` have ended in both sweeps,
    ordered by their numbers in the first sweep. The other fields count configurations: matched ones that are
    `unfinished` or `pruned` in one of the sweeps, and those that only one sweep has.
    """

    keys: tuple[str, ...]
    unmatched_keys: tuple[str, ...] = ()
    pairs: tuple[tuple[Side, Side], ...]
    unfinished: int
    pruned: int
    only_first: int
    only_second: int


@dataclass(frozen=True, kw_only=True)
class SweepComparison:
    """Two sweeps: the keys in which they differ, their matched configurations, and the differences first - second.

    `configurations` has every matched pair at each group of lengths, with p after Holm's correction over the pairs.
    `together` compares the mean over all matched configurations, seed by seed, at each group of lengths. `best`
    compares the configurations that each sweep ranks first by its selection lengths, at the first of these groups; it
    is None if a sweep has not ended or has only one configuration. `by_length` is like `together`, but for every
    length. Its intervals form a simultaneous band: by Bonferroni's inequality, the band contains all median differences
    with a probability of at least LEVEL.
    """

    first: Summary
    second: Summary
    specification: Mapping[str, tuple[Any, Any]]
    code: Mapping[str, tuple[str | None, str | None]]
    environment: Mapping[str, tuple[str, str]]
    matching: Matching
    configurations: tuple[SeedComparison, ...]
    together: tuple[SeedComparison, ...]
    best: SeedComparison | None
    by_length: tuple[SeedComparison, ...]

    @property
    def band_level(self) -> float:
        """The level of each interval of the band."""
        return compute_band_level(len(self.by_length))

    @property
    def has_band(self) -> bool:
        """Whether every length has an interval, so that a band can be drawn."""
        return bool(self.by_length) and not any(np.isnan(comparison.outcome.low) for comparison in self.by_length)


def compute_band_level(lengths: int) -> float:
    """Return the level of each interval of a band over `lengths` lengths with LEVEL, by Bonferroni's inequality."""
    return 1 - (1 - LEVEL) / max(1, lengths)


def compare_sweeps(
    first: Summary,
    second: Summary,
    *,
    metric: str | None = None,
    average: str | None = None,
    lengths: str | None = None,
) -> SweepComparison:
    """Compare two sweeps at the configurations with equal searched values; options are as in `make_questions`.

    Seeds are paired if every matched pair shares random streams, as in `compare_sides`; comparisons of all pairs use
    the seeds that all configurations have. Raises UserError if no common configuration has ended in both sweeps, or if
    a configuration lacks a metric, average or length.
    """
    # All pairs have the same metric and average, so that they can also be averaged.
    matching = _match_configurations(first, second)
    pairs = matching.pairs
    groups = make_questions(pairs, metric, average, lengths)
    if not groups:
        raise UserError(f"{first.folder} and {second.folder}: the common configurations have no common lengths")
    shared_streams = [compare_recorded_streams(*pair) for pair in pairs]
    configurations, together = _compare_groups(pairs, shared_streams, groups)

    # A mean over configurations can differ while the best ones do not: most may have too low a learning rate.
    best = _compare_best(first, second, groups[0][0])

    # The band is over all lengths, so each of its intervals has the stricter level of Bonferroni.
    every_length = groups[0][0].lengths if lengths else find_common_lengths(pairs, groups[0][0].metric)
    by_length = [
        _compare_together(
            pairs, shared_streams, _make_question_at(pairs[0], groups[0][0], length), EACH_LENGTH, len(every_length)
        )
        for length in every_length
    ]

    # Passive keys, such as the name, differ between any two sweeps and have no influence on results.
    first_settings, second_settings = map(_read_settings, (first, second), (second, first))
    return SweepComparison(
        first=first,
        second=second,
        specification=dict(find_differing_values(first_settings, second_settings)),
        code={key: values for streams in shared_streams for key, values in streams.code.items()},
        environment=find_differing_environment(first.state, second.state),
        matching=matching,
        configurations=tuple(configurations),
        together=tuple(together),
        best=best,
        by_length=tuple(by_length),
    )


def _compare_best(first: Summary, second: Summary, matched_question: Question) -> SeedComparison | None:
    """Compare the configurations ranked first in two sweeps by the question of the `matched` ones.

    None if a sweep has a single configuration or has not ended, or if a configuration lacks the metric, the average or
    a length.
    """
    sides = [Side(sweep, sweep.first) for sweep in (first, second) if sweep.first]
    if len(sides) < 2 or not all(sweep.has_ended and len(sweep.rows) > 1 for sweep in (first, second)):
        return None

    # Unlike matched configurations, these two may have different tasks, and so different metrics and lengths.
    lengths = ",".join(map(str, matched_question.lengths)) if matched_question.group == REQUESTED else None
    try:
        groups = make_questions([(sides[0], sides[1])], matched_question.metric, matched_question.average, lengths)
    except UserError:
        return None
    question = next((questions[0] for questions in groups if questions[0].group == matched_question.group), None)
    return compare_sides(sides[0], sides[1], question, BEST_AGAINST_BEST) if question else None


def _compare_groups(
    pairs: Sequence[Pair], shared_streams: Sequence[SharedStreams], groups: Sequence[Sequence[Question]]
) -> tuple[list[SeedComparison], list[SeedComparison]]:
    """Return the comparisons of each pair, and of all pairs together, at each group of lengths.

    `groups` has for each group the question of every pair; its lengths may be empty.
    """
    # Pairs may lack lengths: each is compared at its own, all together only at the common ones.
    configurations, together = list[SeedComparison](), list[SeedComparison]()
    for questions in groups:
        with_lengths = [number for number, question in enumerate(questions) if question.lengths]
        pair_comparisons = [
            compare_sides(*pairs[number], questions[number], MATCHED, shared_streams[number]) for number in with_lengths
        ]
        configurations += correct_family(pair_comparisons)
        shared_lengths = set.intersection(*(set(questions[number].lengths) for number in with_lengths))
        if shared_lengths:
            question = replace(questions[with_lengths[0]], lengths=tuple(sorted(shared_lengths)))
            common_pairs = [pairs[number] for number in with_lengths]
            common_shared = [shared_streams[number] for number in with_lengths]
            together.append(_compare_together(common_pairs, common_shared, question, TOGETHER))
    return configurations, together


def _advise_configurations(first: Summary, second: Summary) -> str:
    """Return the command that compares the first configurations of two sweeps; empty if it would be refused."""
    try:
        sides = (Side(first, first.rows[0]), Side(second, second.rows[0]))
        if not make_questions([sides]):
            return ""
    except (IndexError, UserError):  # no configurations, or no common metric
        return ""
    label, other_label = (side.label.removeprefix("#") for side in sides)
    command = f"{format_command('compare', first.folder)} {label} {second.folder}/{other_label}"
    return f"; name two configurations instead: {command}"


def _match_configurations(first: Summary, second: Summary) -> Matching:
    """Match the configurations of two sweeps by every key that either of them searched.

    A key that a sweep did not search has the fixed value of its configurations. If none match, for example after a key
    was removed from the space, they are matched by the keys that both sweeps searched with common values. These values
    must be unique in each sweep. Raises UserError if no configurations match, or if no matching configurations have
    ended.
    """
    # The strictest match comes first: by all searched keys.
    sweeps = (first, second)
    unmatched_keys = tuple[str, ...]()
    all_keys = keys = tuple(sorted({*first.searched, *second.searched}))
    shared_keys = frozenset(first.searched) & frozenset(second.searched)
    first_rows, second_rows = (_index_rows(summary, keys, shared_keys) for summary in sweeps)

    # A key that was removed from the space can prevent every match, so try only shared keys with common values.
    if first_rows.keys().isdisjoint(second_rows):
        values_by_key = {
            key: [_index_rows(summary, (key,), shared_keys).keys() for summary in sweeps] for key in shared_keys
        }
        keys = tuple(
            key
            for key in all_keys
            if key in shared_keys and not values_by_key[key][0].isdisjoint(values_by_key[key][1])
        )
        unmatched_keys = tuple(key for key in all_keys if key not in keys)
        first_rows, second_rows = (_index_rows(summary, keys, shared_keys) for summary in sweeps)
        if len(first_rows) < len(first.rows) or len(second_rows) < len(second.rows):
            first_rows = {}

    # Values that differ by rounding are the usual reason for no match, so the error names the nearest ones.
    matched_values = sorted(
        (values for values in first_rows if values in second_rows), key=lambda values: first_rows[values].number
    )
    if not matched_values:
        nearest_numbers = [line for key in all_keys if (line := _find_nearest_numbers(first, second, key))]
        hint = f"; nearest: {', '.join(nearest_numbers)}" if nearest_numbers else ""
        tasks = [_get_task_name(summary) for summary in sweeps]
        other_tasks = f"their tasks are {' and '.join(tasks)}; " if all(tasks) and tasks[0] != tasks[1] else ""
        raise UserError(
            f"{first.folder} and {second.folder}: {other_tasks}no configurations match in the searched keys "
            f"({', '.join(all_keys) or 'none'}){hint}{_advise_configurations(first, second)}"
        )

    # Only configurations that have ended in both sweeps are compared; pruned ones never end.
    pruned_count = sum(
        first_rows[values].pruned_at is not None or second_rows[values].pruned_at is not None
        for values in matched_values
    )
    ended_values = [
        values for values in matched_values if first_rows[values].is_complete and second_rows[values].is_complete
    ]
    if not ended_values:
        raise UserError(
            f"{first.folder} and {second.folder}: no common configuration has ended in both; "
            f"unfinished sweeps: {', '.join(str(sweep.folder) for sweep in sweeps if not sweep.has_ended) or 'none'}"
        )
    return Matching(
        keys=keys,
        unmatched_keys=unmatched_keys,
        pairs=tuple((Side(first, first_rows[values]), Side(second, second_rows[values])) for values in ended_values),
        unfinished=len(matched_values) - len(ended_values) - pruned_count,
        pruned=pruned_count,
        only_first=len(first.rows) - len(matched_values),
        only_second=len(second.rows) - len(matched_values),
    )


def _read_settings(summary: Summary, other: Summary) -> dict[str, Any]:
    """Return the settings of a sweep that may change results, with the defaults of its program that `other` knows."""
    settings = {key: value for key, value in summary.state.spec.items() if key not in PASSIVE}
    known_keys = {*other.state.spec.get("config", {}), *list_program_defaults(other.state.packs.values())}
    defaults = list_program_defaults(summary.state.packs.values())
    return add_defaults(settings, {key: values for key, values in defaults.items() if key in known_keys})


def _get_task_name(summary: Summary) -> str:
    """Return the name of the task of a sweep; "" for a program, or if the task is searched."""
    names = {read_key(dict(recorded.resolved), "task.name") for recorded in summary.provenance.values()}
    return str(names.pop()) if len(names) == 1 and ABSENT not in names else ""


def _index_rows(
    summary: Summary, keys: tuple[str, ...], shared_keys: frozenset[str]
) -> dict[Hashable, ConfigurationResult]:
    """Return the configurations of a sweep by their values of `keys`."""
    return {_make_match_key(summary, row, keys, shared_keys): row for row in summary.rows}


def _find_nearest_numbers(first: Summary, second: Summary, key: str) -> str:
    """Return the nearest numbers of a key in two sweeps, "key 0.0302 / 0.03"; empty if they share a number."""
    numbers, other_numbers = (
        {
            value
            for row in summary.rows
            if type(value := row.values.get(key, read_key(dict(summary.provenance[row.config_id].resolved), key)))
            in (int, float)
        }
        for summary in (first, second)
    )

    x, y = min(product(numbers, other_numbers), key=lambda pair: abs(pair[0] - pair[1]), default=(0, 0))
    return f"{key} {x} / {y}" if x != y else ""


def _make_match_key(
    summary: Summary, row: ConfigurationResult, keys: tuple[str, ...], shared_keys: frozenset[str]
) -> Hashable:
    """Return the values of `keys` in a configuration: drawn ones for `shared_keys`, which both sweeps searched."""
    # A sweep has the keys that it did not search only among its resolved values.
    resolved = dict(summary.provenance[row.config_id].resolved)
    drawn_values = {key: row.values[key] for key in shared_keys if key in row.values}
    values = (drawn_values[key] if key in drawn_values else read_key(resolved, key) for key in keys)
    return tuple(ABSENT if value is ABSENT else make_value_key(value) for value in values)


def _make_question_at(pair: Pair, question: Question, length: int) -> Question:
    """Return the question at one length, with the group of that length."""
    groups = pair[0].summary.find_length_groups(pair[0].row, question.metric)
    group = next((name for name in LENGTH_GROUPS if length in getattr(groups, name)), "other")
    return replace(question, group=group, lengths=(length,), reduce="mean")


def _compare_together(
    pairs: Sequence[Pair], shared_streams: Sequence[SharedStreams], question: Question, family: str, lengths: int = 1
) -> SeedComparison:
    """Compare the means over all pairs of configurations, seed by seed, at the level of a band over `lengths`.

    `first_seeds`, `second_seeds` and failed seeds are counted over all configurations. `unmatched` counts the seeds
    that some configuration lacks.
    """
    # Means are paired only if each seed's mean is over the same configurations, so only common seeds count.
    first_values, second_values = ([collect_seed_values(pair[side], question) for pair in pairs] for side in (0, 1))
    seeds = [sorted(set.intersection(*map(set, values))) for values in (first_values, second_values)]
    all_seeds = {seed for values in (*first_values, *second_values) for seed in values}
    common_seeds = sorted({*seeds[0]} & {*seeds[1]})
    is_paired = all(streams.is_paired for streams in shared_streams) and has_enough_pairs(
        len(common_seeds), *map(len, seeds)
    )

    # Tables of configurations and seeds; paired sides have the same seeds.
    x_CS, y_CS = (
        np.array(
            [[value_by_seed[seed] for seed in (common_seeds if is_paired else side_seeds)] for value_by_seed in values]
        )
        for values, side_seeds in zip((first_values, second_values), seeds, strict=True)
    )

    # Paired seeds are left out on both sides if one side lacks them, so that medians and difference agree.
    outcome = compare_tables(x_CS, y_CS, question, is_paired=is_paired, level=compute_band_level(lengths))
    common_streams = [
        name for name in shared_streams[0].common if all(name in streams.common for streams in shared_streams)
    ]
    first_CS, second_CS = (replace_failed_seeds(table, question) for table in (x_CS, y_CS))
    if is_paired:
        is_missing = np.isnan(first_CS) | np.isnan(second_CS)
        first_CS, second_CS = (np.where(is_missing, np.nan, table) for table in (first_CS, second_CS))
    first, second = map(average_configurations, (first_CS, second_CS))
    return SeedComparison(
        question=question,
        first_median=compute_median_or_nan(first[~np.isnan(first)]),
        second_median=compute_median_or_nan(second[~np.isnan(second)]),
        first_seeds=x_CS.size,
        second_seeds=y_CS.size,
        first_failed=int(np.isnan(x_CS).sum()),
        second_failed=int(np.isnan(y_CS).sum()),
        unmatched=len(all_seeds) - len(common_seeds) if is_paired else 0,
        shared=replace(shared_streams[0], common=tuple(common_streams), causes={}, differing={}),
        outcome=outcome,
        family=family,
        holm_p=outcome.p,
    )
