"""Print and write the comparisons of `lengthwise compare`: of two configurations, or of sweeps with the first one."""

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from orchestrator.errors import NotASweep, UserError, refuse_unwritable
from orchestrator.mirror.fetch import find_sweep
from orchestrator.record.ledger.folders import has_ledger
from orchestrator.record.state.state import SweepState
from orchestrator.report.confirmation_sentences import describe_confirmed_pair
from orchestrator.report.csv_tables import write_csv
from orchestrator.report.lead_sentences import ENOUGH_SEEDS, make_extend_command
from orchestrator.report.tables.columns import Column, Columns, Records, make_cells
from orchestrator.report.tables.configuration_tables import format_ranks
from orchestrator.report.tables.seed_comparison_table import (
    MAX_DIFFERING_LINES,
    MAX_VALUES,
    count_pairs_needed,
    describe_failed_pairs,
    describe_sign,
    describe_verdict,
    list_difference_notes,
    make_comparison_columns,
    make_comparison_records,
)
from orchestrator.report.terminal import lay_out, make_rich_table, make_sentence_text
from orchestrator.results.comparing.named_comparison import NamedComparison, compare_named
from orchestrator.results.comparing.seed_comparisons import SeedComparison, Side
from orchestrator.results.comparing.sweep_comparison import SweepComparison, compare_sweeps
from orchestrator.results.make_summary import summarize
from orchestrator.results.read_confirmations import read_confirmations
from orchestrator.results.selection_bias import find_chosen, is_biased
from orchestrator.results.summary import Summary
from orchestrator.statistics.exact_tests import ALPHA
from orchestrator.statistics.intervals import LEVEL, MIN_FOR_MEDIAN, count_needed_values
from orchestrator.targets import check_ending, check_targets
from orchestrator.text.wording import (
    compact_pair,
    compact_value,
    format_count,
    format_label,
    format_lengths,
    format_number,
    format_ranges,
    join_first_few,
    shorten_keys,
)

MAX_DIFFERING_KEYS = 12  # in a sentence
MAX_VALUE_CHARACTERS = 60


def compare_and_show(
    folder: Path,
    others: Sequence[str],
    console: Console,
    csv: Path | None = None,
    figure: Path | None = None,
    *,
    metric: str | None = None,
    average: str | None = None,
    lengths: str | None = None,
    force: bool = False,
) -> Iterator[str]:
    """Print a comparison, write it to `csv` and draw it to `figure` unless they are None; yield a line for each file.

    `others` are two configurations of the sweep in `folder`, or sweeps if any of them is a sweep. Raises UserError for
    unknown names, for files that exist unless `force`, and what `compare_named` and `compare_sweeps` raise.
    """
    # A comparison of large sweeps takes long, so reject files that cannot be written first.
    if csv is not None:
        check_ending("csv", csv, ".csv")
        check_targets([csv], force=force)
    if figure is not None:
        from orchestrator.figures.drawing import check_figure_path  # imports matplotlib

        check_figure_path(figure, force=force)

    # Two names are configurations, unless one of them is a sweep; any other number of names are sweeps.
    if len(others) != 2 or any(map(_is_sweep, others)):
        comparisons = _compare_with_first([folder, *map(find_sweep, others)], metric, average, lengths)
        for number, sweep_comparison in enumerate(comparisons):
            if number:
                console.print("")
            for part in _render_sweeps(sweep_comparison, console):
                console.print(part)
        lines = make_sweep_comparison_records(comparisons)
    elif figure is not None:
        raise UserError(f"--figure {figure}: draws only comparisons of sweeps; lengthwise report draws configurations")
    else:
        named_comparison = compare_named(folder, *others, metric=metric, average=average, lengths=lengths)
        for part in _render_configurations(named_comparison, console):
            console.print(part)
        lines = make_comparison_records(named_comparison.comparisons)

    # Files come last: the printed comparison stays if writing fails.
    if figure is not None:
        from orchestrator.figures.sweep_differences import draw_difference_figure

        drawable = [sweep_comparison for sweep_comparison in comparisons if sweep_comparison.by_length]
        if not drawable:
            raise UserError(f"--figure {figure}: the matched configurations have no common lengths")
        yield f"Figure: {draw_difference_figure(drawable, figure)}"
    if csv is not None:
        with refuse_unwritable(csv):
            write_csv(csv, lines, ())
        yield f"wrote {csv}"


def _render_configurations(named_comparison: NamedComparison, console: Console) -> Iterator[RenderableType]:
    """Yield the verdict, both configurations, the keys in which they differ, the table of differences, and notes."""
    # The verdict comes first, because it is what the reader asked for.
    summary = named_comparison.first.summary
    comparisons = named_comparison.comparisons
    sides = (named_comparison.first, named_comparison.second)
    is_one_sweep = named_comparison.second.summary is summary
    names = [format_label(side.row.number) + ("" if is_one_sweep else f" of {side.summary.name}") for side in sides]
    chosen_row = find_chosen(summary, [side.row for side in sides]) if is_one_sweep else None
    chosen = format_label(chosen_row.number) if chosen_row else ""
    is_favoured = is_one_sweep and is_biased(summary, comparisons[0])
    has_interval = not math.isnan(comparisons[0].outcome.low)
    bias = " (biased)" if is_favoured else ""
    scope = f"On the seeds that chose {chosen}{bias}: " if chosen and has_interval else ""
    yield _render_verdict(comparisons[0], names, console, summary, scope, is_favoured=is_favoured)

    # Fresh seeds favour neither, so their answer stands beside that of the seeds that chose one.
    for confirmation in read_confirmations(summary) if chosen else ():
        labels = {format_label(row.number) for row in confirmation.rows[:2]}
        if confirmation.comparison is not None and labels == set(names):
            yield make_sentence_text(describe_confirmed_pair(confirmation), console, summary, "bold")
    yield from _advise_more_seeds(comparisons[0], [side.summary for side in sides], console)
    for name, side in (("First", named_comparison.first), ("Second", named_comparison.second)):
        yield make_sentence_text(f"{name}: {_describe_configuration(side)}", console, summary)

    # Differing settings explain a difference, so they precede the table.
    differing = comparisons[0].shared.differing
    values = [f"{key} {' / '.join(compact_pair(*pair))}" for key, pair in differing.items()]
    yield make_sentence_text(f"They differ in: {', '.join(values) or 'nothing that was recorded'}", console, summary)
    yield ""
    yield Text(describe_sign(comparisons, *_distinguish(names)), style="bold")
    yield from _lay_out_comparisons(comparisons, [], summary, console)

    # The notes say what the numbers assume, and whether the same seeds chose the first of the two.
    notes = list_difference_notes(comparisons)
    if len(comparisons) > 1:
        notes.append("Each group of lengths has its own p, not corrected for the number of groups.")
    if chosen:
        notes.append(
            f"{chosen} was ranked first by the selection lengths, so differences there favour it, and slightly so at "
            "other lengths. Only fresh seeds (lengthwise confirm) are unbiased."
        )
    yield from (make_sentence_text(note, console, summary, "dim") for note in notes)


def _render_verdict(
    comparison: SeedComparison,
    names: Sequence[str],
    console: Console,
    summary: Summary,
    scope: str = "",
    *,
    is_favoured: bool = False,
) -> RenderableType:
    """Return a verdict, after the `scope` that it is about; equal names become "First" and "Second"."""
    verdict = describe_verdict(comparison, *_distinguish(names), is_favoured=is_favoured)
    return make_sentence_text(scope + verdict, console, summary, "bold")


def _label_sides(sweep_comparison: SweepComparison, comparison: SeedComparison) -> list[str]:
    """Return the labels of both configurations of a comparison, "#8 of quickstart"."""
    sides = ((sweep_comparison.first, comparison.first), (sweep_comparison.second, comparison.second))
    return [
        f"{format_label(sweep.state.configurations[config_id].number)} of {sweep.name}" for sweep, config_id in sides
    ]


def _distinguish(names: Sequence[str], substitutes: tuple[str, str] = ("First", "Second")) -> tuple[str, str]:
    """Return two names, or the substitutes if they are equal."""
    first, second = names
    return (first, second) if first != second else substitutes


def _advise_more_seeds(
    comparison: SeedComparison, summaries: Sequence[Summary], console: Console
) -> Iterator[RenderableType]:
    """Yield the commands that train enough seeds for an interval, if sweeps that can be extended have too few."""
    short = [summary for summary in summaries if len(summary.shared_seeds) < ENOUGH_SEEDS]
    commands = list(filter(None, map(make_extend_command, short)))
    if commands and comparison.outcome.paired and comparison.outcome.n < MIN_FOR_MEDIAN:
        yield make_sentence_text(f"For an interval: {' and '.join(dict.fromkeys(commands))}", console, summaries[0])


def _describe_configuration(side: Side) -> str:
    """Return label, sweep, config_id, rank and seeds of a configuration as text."""
    row = side.row
    rank = (
        f"ranked {format_ranks(side.summary)[row.config_id]} of {side.summary.complete_configurations}"
        if row.rank
        else "failed"
    )
    ended = f"{row.seeds_run} seeds, {row.seeds_failed} failed"
    return f"{format_label(row.number)} of {side.summary.name} ({row.config_id}, {rank}; {ended})"


def _is_sweep(name: str) -> bool:
    """Return whether a name names a sweep; otherwise it names a configuration."""
    try:
        return has_ledger(find_sweep(name))
    except NotASweep:  # an address without a sweep
        return False


def _compare_with_first(
    folders: Sequence[Path], metric: str | None, average: str | None, lengths: str | None
) -> list[SweepComparison]:
    """Return the comparison of the first sweep with each of the others."""
    # The same sweep may be named several times, and reading one takes long.
    summaries: dict[Path, Summary] = {}
    for folder in folders:
        if folder.resolve() not in summaries:
            summaries[folder.resolve()] = summarize(_load_sweep(folder, folders[0]))
    first, *others = (summaries[folder.resolve()] for folder in folders)
    return [compare_sweeps(first, other, metric=metric, average=average, lengths=lengths) for other in others]


def _load_sweep(folder: Path, first: Path) -> SweepState:
    """Return the state of a compared sweep; if it is not the `first`, errors name both allowed forms."""
    try:
        return SweepState.load(folder)
    except NotASweep as error:
        if folder == first:
            raise
        raise NotASweep(f"{error}; allowed: other sweeps, or two configurations of {first}") from None


def make_sweep_comparison_records(comparisons: Sequence[SweepComparison]) -> Records:
    """Return a CSV line for every comparison: all matched together, the best of both, each length, each pair.

    The columns are the names of the sweeps and those of seed_comparisons.csv; `family` is the kind of comparison.
    Intervals of the family "each length" are those of the simultaneous band.
    """
    return [
        {"first_sweep": sweep_comparison.first.name, "second_sweep": sweep_comparison.second.name, **line}
        for sweep_comparison in comparisons
        for line in make_comparison_records(_list_comparisons(sweep_comparison))
    ]


def _list_comparisons(sweep_comparison: SweepComparison) -> list[SeedComparison]:
    """Return all comparisons of two sweeps, in the order of the lines of the CSV."""
    best = [sweep_comparison.best] if sweep_comparison.best else []
    return [*sweep_comparison.together, *best, *sweep_comparison.by_length, *sweep_comparison.configurations]


def describe_noise(sweep_comparison: SweepComparison) -> list[str]:
    """Return sentences on differences beyond seed noise: at which lengths, and in which matched configurations."""
    return [*_describe_band(sweep_comparison), *_describe_configurations(sweep_comparison)]


def _render_sweeps(sweep_comparison: SweepComparison, console: Console) -> Iterator[RenderableType]:
    """Yield the verdict, the settings in which two sweeps differ, the tables of differences, and notes."""
    # The verdict comes first; differing settings, which may explain it, precede the tables.
    first, matching = sweep_comparison.first, sweep_comparison.matching
    if sweep_comparison.together:
        scope = f"{len(matching.pairs)} configurations together: " if len(matching.pairs) > 1 else ""
        yield _render_verdict(
            sweep_comparison.together[0], [first.name, sweep_comparison.second.name], console, first, scope
        )
        if best := sweep_comparison.best:
            yield _render_verdict(best, _label_sides(sweep_comparison, best), console, first, "Best against best: ")
        yield from _advise_more_seeds(sweep_comparison.together[0], [first, sweep_comparison.second], console)
    else:
        yield Text("No verdict: nothing can be compared.", "bold")
    for name, summary in (("First", first), ("Second", sweep_comparison.second)):
        yield make_sentence_text(f"{name}: {_describe_sweep(summary)}", console, summary)
    parts = {
        "Specification": sweep_comparison.specification,
        "Code": sweep_comparison.code,
        "Environment": sweep_comparison.environment,
    }
    for title, differing in parts.items():
        if differing:
            yield make_sentence_text(f"{title}: {_describe_differences(differing)}", console, first)
    if equal := [title.lower() for title, differing in parts.items() if not differing]:
        yield make_sentence_text(f"No difference in {', '.join(equal)}", console, first)
    yield make_sentence_text(_describe_matching(sweep_comparison), console, first)
    yield ""

    # One table has all matched configurations together; another only the few that differ, because there may be
    # hundreds.
    names = _distinguish([first.name, sweep_comparison.second.name])
    if sweep_comparison.together:
        yield Text(describe_sign(sweep_comparison.together, *names), style="bold")
        yield from _lay_out_comparisons(sweep_comparison.together, [], first, console)
    yield from (make_sentence_text(sentence, console, first) for sentence in describe_noise(sweep_comparison))
    differing_pairs = _list_differing(sweep_comparison) if len(matching.pairs) > 1 else []
    shown = differing_pairs[:MAX_DIFFERING_LINES]
    if shown:
        count = (
            f"largest {len(shown)} of {len(differing_pairs)} differences"
            if len(shown) < len(differing_pairs)
            else "differences"
        )
        yield ""
        yield Text(f"Matched configurations that differ: {count}, {names[0]} minus {names[1]}", style="bold")
        yield from _lay_out_comparisons(shown, _make_name_columns(sweep_comparison), first, console)

    # The notes are about the tables above; --csv has the lines that these leave out.
    are_several = len(matching.pairs) > 1
    notes = [
        *([f"All together: per seed, the mean over the {len(matching.pairs)} configurations."] if are_several else []),
        *list_difference_notes(sweep_comparison.configurations if shown else sweep_comparison.together),
    ]
    left_out = max((comparison.unmatched for comparison in sweep_comparison.together), default=0)
    noted = min((comparison.unmatched for comparison in sweep_comparison.configurations), default=0)
    if left_out > noted:
        notes.append(f"All together: {format_count(left_out, 'seed')} left out, missing in some matched configuration.")
    if len(matching.pairs) > 1:
        if sweep_comparison.best:
            notes.append("Best against best: the configurations that the selection lengths rank first in each sweep.")
        notes.append(f"To see all {len(matching.pairs)} matched configurations at all lengths, add --csv FILE.csv")
    yield from (make_sentence_text(note, console, first, "dim") for note in notes)


def _list_differing(sweep_comparison: SweepComparison) -> list[SeedComparison]:
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


def _lay_out_comparisons(
    comparisons: Sequence[SeedComparison], names: Columns, summary: Summary, console: Console
) -> Iterator[RenderableType]:
    """Yield the tables of differences that fit the console; `names` are columns before the differences."""
    cells = make_cells(comparisons, [*names, *make_comparison_columns(comparisons, summary.infinity_text)])
    yield from map(make_rich_table, lay_out(cells, console.width, keys=len(names) + 1))


def _make_name_columns(sweep_comparison: SweepComparison) -> Columns:
    """Return the columns with the labels of both configurations; the first also has the values of a few keys."""
    pair_by_ids = {tuple(side.row.config_id for side in pair): pair for pair in sweep_comparison.matching.pairs}
    names = shorten_keys(sweep_comparison.matching.keys)

    def describe_side(index: int, comparison: SeedComparison) -> str:
        row = pair_by_ids[comparison.first, comparison.second][index].row
        values = [f"{name} {compact_value(row.values[key])}" for key, name in names.items() if key in row.values]
        return " ".join(
            [format_label(row.number), *([", ".join(values)] if len(names) <= MAX_VALUES and index == 0 else [])]
        )

    return [Column("first", partial(describe_side, 0)), Column("second", partial(describe_side, 1))]


def _describe_sweep(summary: Summary) -> str:
    """Return name, folder, and numbers of configurations and seeds of a sweep as text."""
    done = f"{summary.complete_configurations} of {format_count(summary.planned_configurations, 'configuration')} done"
    return f"{summary.name} in {summary.folder} ({done}; {summary.seeds_run} seeds ran, {summary.seeds_failed} failed)"


def _describe_differences(differing: Mapping[str, tuple[Any, Any]]) -> str:
    """Return the keys with both values, "key first / second, ..."."""
    values = [f"{key} {_shorten_value(first)} / {_shorten_value(second)}" for key, (first, second) in differing.items()]
    return join_first_few(values, MAX_DIFFERING_KEYS)


def _shorten_value(value: Any) -> str:
    """Return a value as text, ascending integers as spans, cut off after MAX_VALUE_CHARACTERS."""
    are_integers = isinstance(value, list | tuple) and value and all(type(number) is int for number in value)
    text = format_ranges(value) if are_integers and list(value) == sorted(value) else compact_value(value)
    return text if len(text) <= MAX_VALUE_CHARACTERS else f"{text[: MAX_VALUE_CHARACTERS - 3]}..."


def _describe_matching(sweep_comparison: SweepComparison) -> str:
    """Return how configurations were matched, and how many are left out, as a sentence without a full stop."""
    matching = sweep_comparison.matching
    keys = ", ".join(shorten_keys(matching.keys).values())
    matched = format_count(len(matching.pairs) + matching.unfinished + matching.pruned, "configuration")
    sentence = f"{matched} with equal searched values ({keys})" if keys else f"{matched} in both, nothing was searched"
    if matching.unmatched_keys:
        names = ", ".join(shorten_keys(matching.unmatched_keys).values())
        sentence = f"{matched} with equal {keys}; they also differ in {names}, which may cause any difference"

    sentence += f"; only in the first: {matching.only_first}, only in the second: {matching.only_second}"
    sentence += f"; pruned in one of them, left out: {matching.pruned}" if matching.pruned else ""
    return sentence + (f"; not ended in both, left out: {matching.unfinished}" if matching.unfinished else "")


def _describe_band(sweep_comparison: SweepComparison) -> Iterator[str]:
    """Yield a sentence on the lengths at which the band excludes 0, or the reason if there is no band."""
    # Seeds that are too few for all lengths at once may be enough for one, so say how many a band needs.
    points = sweep_comparison.by_length
    if not points:
        yield "No difference against length: the matched configurations have no common lengths."
        return
    lengths = format_count(len(points), "length")
    outcome = points[0].outcome
    if not sweep_comparison.has_band:
        missing = next(comparison.outcome for comparison in points if math.isnan(comparison.outcome.low))
        required = count_needed_values(sweep_comparison.band_level)
        few = missing.paired and 0 < missing.n < required
        too_few = f"{format_count(missing.n, 'seed')} are too few for {lengths} at once (at least {required})"
        yield f"No band against length: {too_few if few else missing.reason}."
        return

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
    if texts:
        yield f"More than seed noise ({band}): {'; '.join(texts)}."
    else:
        yield f"At no length is the difference more than seed noise ({band})."


def _name_sweeps(sweep_comparison: SweepComparison) -> tuple[str, str]:
    """Return the names of both sweeps for use in a sentence."""
    return _distinguish(
        [sweep_comparison.first.name, sweep_comparison.second.name], ("the first sweep", "the second sweep")
    )


def _describe_lengths(better: str, conclusive: Sequence[SeedComparison], points: Sequence[SeedComparison]) -> str:
    """Return the lengths at which a sweep is conclusively better: "NAME is better at lengths 8-11, by up to ..."."""
    # The largest difference decides the numbers of the sentence.
    largest = max(conclusive, key=lambda comparison: abs(comparison.outcome.difference))
    difference = format_number(abs(largest.outcome.difference))
    length = largest.question.lengths[0]

    # Without a better direction, name the lower sweep.
    relation = "lower" if largest.question.direction == "none" else "better"
    lengths = format_ranges([comparison.question.lengths[0] for comparison in conclusive])
    scope = "all lengths" if len(conclusive) == len(points) else f"lengths {lengths}"
    return f"{better} is {relation} at {scope}, by up to {difference} at length {length}"


def _describe_configurations(sweep_comparison: SweepComparison) -> Iterator[str]:
    """Yield a sentence on the matched configurations that differ after Holm's correction, at the first group."""
    # Only comparisons with a p at the first group of lengths count.
    tested = _list_tested(sweep_comparison)
    if not tested:
        return

    numbers = {first.row.config_id: first.row.number for first, _ in sweep_comparison.matching.pairs}
    differing_labels = [format_label(numbers[comparison.first]) for comparison in tested if comparison.holm_p < ALPHA]
    group = tested[0].question.group
    lengths = sorted({length for comparison in tested for length in comparison.question.lengths})
    matched = format_count(len(tested), "matched configuration")
    sentence = f"Of {matched} {len(differing_labels) or 'none'} {'differs' if len(differing_labels) < 2 else 'differ'}"
    sentence += f" at the {format_lengths(lengths, f'{group} ')} with p < {ALPHA:g} after Holm's correction"
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
