"""Print and write the comparisons of `lengthwise compare`: of two configurations, or of sweeps with the first one."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from rich.console import Console, RenderableType
from rich.text import Text

from orchestrator.code.user_code import PROGRAM
from orchestrator.engine.environment import MODULE
from orchestrator.errors import NotASweep, UserError, convert_write_errors
from orchestrator.mirror.fetch import find_sweep
from orchestrator.record.ledger.folders import has_ledger
from orchestrator.record.state.labels import make_label
from orchestrator.record.state.state import SweepState
from orchestrator.report.confirmation_sentences import describe_confirmed_pair
from orchestrator.report.csv_tables import write_csv
from orchestrator.report.lead_sentences import ENOUGH_SEEDS, make_extend_command
from orchestrator.report.sweep_sentences import (
    describe_band,
    describe_differences,
    describe_differing,
    describe_matching,
    describe_sweep,
    distinguish_names,
    list_differing,
)
from orchestrator.report.tables.columns import Column, Columns, Records, make_cells
from orchestrator.report.tables.configuration_tables import format_ranks
from orchestrator.report.tables.seed_comparison_table import (
    MAX_DIFFERING_LINES,
    MAX_VALUES,
    describe_sign,
    describe_verdict,
    list_difference_notes,
    make_comparison_columns,
    make_comparison_records,
)
from orchestrator.report.terminal import make_rich_table, split_table
from orchestrator.results.comparing.named_comparison import NamedComparison, compare_named
from orchestrator.results.comparing.seed_comparisons import SeedComparison, Side
from orchestrator.results.comparing.sweep_comparison import SweepComparison, compare_sweeps
from orchestrator.results.make_summary import summarize
from orchestrator.results.read_confirmations import has_fresh_seeds, read_confirmations
from orchestrator.results.selection_bias import find_chosen, is_biased
from orchestrator.results.summary import Summary
from orchestrator.statistics.intervals import MIN_FOR_MEDIAN
from orchestrator.targets import check_ending, check_targets
from orchestrator.text.consoles import wrap_sentence
from orchestrator.text.wording import (
    compact_pair,
    compact_value,
    format_count,
    format_label,
    format_ranges,
    join_first_few,
    list_differing_keys,
    shorten_keys,
)


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

        # Configurations without common lengths have no curve of differences.
        drawable = [sweep_comparison for sweep_comparison in comparisons if sweep_comparison.by_length]
        if not drawable:
            raise UserError(f"--figure {figure}: the matched configurations have no common lengths")
        yield f"Figure: {draw_difference_figure(drawable, figure)}"
    if csv is not None:
        with convert_write_errors(csv):
            write_csv(csv, lines, ())
        yield f"wrote {csv}"


def _render_configurations(named_comparison: NamedComparison, console: Console) -> Iterator[RenderableType]:
    """Yield the verdict, both configurations, the keys in which they differ, the table of differences, and notes."""
    # The verdict comes first, because it is what the reader asked for.
    summary = named_comparison.first.summary
    comparisons = named_comparison.comparisons
    sides = (named_comparison.first, named_comparison.second)
    is_one_sweep = named_comparison.second.summary is summary
    names = [side.label + ("" if is_one_sweep else f" of {side.summary.name}") for side in sides]
    chosen_row = find_chosen(summary, [side.row for side in sides]) if is_one_sweep else None
    chosen = make_label(summary.state.provenance, chosen_row.number) if chosen_row else ""
    is_favoured = is_one_sweep and is_biased(summary, comparisons[0])

    # Fresh seeds favour neither, so their answer precedes the answer of the seeds that chose one.
    confirmed = [
        confirmation
        for confirmation in (read_confirmations(summary) if is_one_sweep and not has_fresh_seeds(summary) else ())
        if confirmation.comparison is not None
        and {format_label(row.number) for row in confirmation.rows[:2]} == set(names)
    ]
    for confirmation in confirmed:
        yield wrap_sentence(describe_confirmed_pair(confirmation), console, "bold")
    has_interval = not math.isnan(comparisons[0].outcome.low)
    bias = " (biased)" if is_favoured else ""
    scope = "In the search: " if confirmed else ""
    if chosen and (has_interval or confirmed):
        scope = f"On the seeds that ranked {chosen} first{bias}: "
    yield _render_verdict(comparisons[0], names, console, summary, scope, is_favoured=is_favoured)
    if not confirmed:
        yield from _advise_more_seeds(comparisons[0], [side.summary for side in sides], console)
    for name, side in (("First", named_comparison.first), ("Second", named_comparison.second)):
        yield wrap_sentence(f"{name}: {_describe_configuration(side)}", console)

    # Differing settings explain a difference, so they precede the table.
    shared = comparisons[0].shared
    values = [
        _describe_code(key, sides, names) if key in shared.code else f"{key} {' / '.join(compact_pair(*pair))}"
        for key, pair in shared.differing.items()
    ]
    yield wrap_sentence(f"They differ in: {', '.join(values) or 'nothing that was recorded'}", console)
    yield ""
    yield Text(describe_sign(comparisons, *distinguish_names(names)), style="bold")
    yield from _lay_out_comparisons(comparisons, [], summary, console)

    # The notes say what the numbers assume, and whether the same seeds chose the first of the two.
    notes = list_difference_notes(comparisons)
    if chosen:
        words = {"first": "Ahead, not better: ", "second": "Behind, not worse: "}
        explained = words.get(comparisons[0].verdict, "") if is_favoured else ""
        notes.append(
            f"{explained}{chosen} was ranked first on these seeds, so they favour it, "
            "most of all at the selection lengths; fresh seeds (lengthwise confirm) favour neither."
        )
    yield from (wrap_sentence(note, console, "dim") for note in notes)


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
    verdict = describe_verdict(comparison, *distinguish_names(names), is_favoured=is_favoured)
    if scope and comparison.verdict not in ("first", "second"):  # else it begins with a name
        verdict = verdict[0].lower() + verdict[1:]
    return wrap_sentence(scope + verdict, console, "bold")


def _label_sides(sweep_comparison: SweepComparison, comparison: SeedComparison) -> list[str]:
    """Return the labels of both configurations of a comparison, "#8 of quickstart"."""
    sides = ((sweep_comparison.first, comparison.first), (sweep_comparison.second, comparison.second))
    return [
        f"{make_label(sweep.state.provenance, sweep.state.configurations[config_id].number)} of {sweep.name}"
        for sweep, config_id in sides
    ]


def _advise_more_seeds(
    comparison: SeedComparison, summaries: Sequence[Summary], console: Console
) -> Iterator[RenderableType]:
    """Yield the commands that train enough seeds for an interval, if sweeps that can be extended have too few."""
    short = [summary for summary in summaries if len(summary.shared_seeds) < ENOUGH_SEEDS]
    commands = list(filter(None, map(make_extend_command, short)))
    if commands and comparison.outcome.paired and comparison.outcome.n < MIN_FOR_MEDIAN:
        yield wrap_sentence(f"For an interval: {' and '.join(dict.fromkeys(commands))}", console)


def _describe_code(key: str, sides: Sequence[Side], names: Sequence[str]) -> str:
    """Return which seeds ran with other code than most, as text: "train.py (seeds 1, 4 of #6 ran with other code)"."""
    recorded = [side.summary.provenance[side.row.config_id].code for side in sides]
    digests = [{seed: code.get(key, "") for seed, code in by_seed.items()} for by_seed in recorded]
    all_digests = [digest for by_seed in digests for digest in by_seed.values()]
    most_common = Counter(all_digests).most_common(1)[0][0]
    others = []
    for name, by_seed in zip(names, digests, strict=True):
        if seeds := sorted(seed for seed, digest in by_seed.items() if digest != most_common):
            numbers = f"seed{'s'[: len(seeds) > 1]} {format_ranges(seeds)} of {name}"
            others.append(name if len(seeds) == len(by_seed) else numbers)

    # The files of a program, unlike those of a module, have names that a user knows; after a resume a seed has two
    # digests.
    label = key
    if key == f"{MODULE}{PROGRAM}":
        copies = [
            fields["files"]
            for side in sides
            for code in side.summary.state.codes
            for fields in code["modules"]
            if fields["module"] == PROGRAM and any(fields["sha256"][:16] in digest for digest in all_digests)
        ]
        changed = {name for copy in copies for name in list_differing_keys(copies[0], copy)}
        label = join_first_few(sorted(changed)) or "the program"
    return f"{label} ({' and '.join(others)} ran with other code)"


def _describe_configuration(side: Side) -> str:
    """Return label, sweep, config_id, rank and seeds of a configuration as text."""
    row = side.row
    rank = (
        f"ranked {format_ranks(side.summary)[row.config_id]} of {side.summary.complete_configurations}"
        if row.rank
        else row.why_unranked
    )
    seeds = f"{row.seeds_run} seeds, {row.seeds_failed} failed"
    return f"{side.label} of {side.summary.name} ({row.config_id}, {rank}; {seeds})"


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
    if folders[0].resolve() in [folder.resolve() for folder in folders[1:]]:
        raise UserError(f"{folders[0]} cannot be compared with itself; name another sweep (lengthwise list sweeps)")

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

    The columns are the names of the sweeps and the columns of seed_comparisons.csv; `family` is the kind of comparison.
    Intervals of the family "each length" form a simultaneous band.
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


def _render_sweeps(sweep_comparison: SweepComparison, console: Console) -> Iterator[RenderableType]:
    """Yield the verdicts, the settings in which two sweeps differ, the tables of differences, and notes."""
    # The verdict comes first, then its lengths; differing settings, which may explain it, precede the tables.
    first, matching = sweep_comparison.first, sweep_comparison.matching
    if sweep_comparison.together:
        scope = f"{len(matching.pairs)} configurations together: " if len(matching.pairs) > 1 else ""
        yield _render_verdict(
            sweep_comparison.together[0], [first.name, sweep_comparison.second.name], console, first, scope
        )
        yield wrap_sentence(describe_band(sweep_comparison), console, "bold")
        if best := sweep_comparison.best:
            yield _render_verdict(best, _label_sides(sweep_comparison, best), console, first, "Best against best: ")
            if best.first == best.second:
                yield wrap_sentence(f"Both are the same configuration, {best.first}.", console, "bold")
        yield from _advise_more_seeds(sweep_comparison.together[0], [first, sweep_comparison.second], console)
    else:
        yield Text("No verdict: nothing can be compared.", "bold")

    # Settings in which the sweeps differ may explain the verdict.
    for name, summary in (("First", first), ("Second", sweep_comparison.second)):
        yield wrap_sentence(f"{name}: {describe_sweep(summary)}", console)
    yield wrap_sentence(f"They differ in: {describe_differences(sweep_comparison)}", console)
    yield wrap_sentence(describe_matching(sweep_comparison), console)
    yield ""

    # One table has all matched configurations together; another only the few that differ, because there may be
    # hundreds.
    names = distinguish_names([first.name, sweep_comparison.second.name])
    if sweep_comparison.together:
        yield Text(describe_sign(sweep_comparison.together, *names), style="bold")
        yield from _lay_out_comparisons(sweep_comparison.together, [], first, console)
    yield from (wrap_sentence(sentence, console) for sentence in describe_differing(sweep_comparison))

    # Matched configurations are listed only if they differ.
    differing_pairs = list_differing(sweep_comparison) if len(matching.pairs) > 1 else []
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
    notes = list_difference_notes(sweep_comparison.configurations if shown else sweep_comparison.together)
    left_out = max((comparison.unmatched for comparison in sweep_comparison.together), default=0)
    noted = min((comparison.unmatched for comparison in sweep_comparison.configurations), default=0)
    if left_out > noted:
        notes.append(f"All together: {format_count(left_out, 'seed')} left out, missing in some matched configuration.")
    if len(matching.pairs) > 1:
        ranked = ' "Best": the first by the selection lengths of each sweep.' if sweep_comparison.best else ""
        notes.append(
            f'"Together": the mean of a seed over the {len(matching.pairs)} configurations.{ranked} '
            "--csv FILE.csv writes every configuration at every length."
        )
    yield from (wrap_sentence(note, console, "dim") for note in notes)


def _lay_out_comparisons(
    comparisons: Sequence[SeedComparison], names: Columns, summary: Summary, console: Console
) -> Iterator[RenderableType]:
    """Yield the tables of differences that fit the console; `names` are columns before the differences.

    Where one table does not fit, the corrected p takes the place of p.
    """
    cells = make_cells(comparisons, [*names, *make_comparison_columns(comparisons, summary.infinity_text)])
    tables = split_table(cells, console.width, keys=len(names) + 1)
    if len(tables) > 1 and "p (Holm)" in cells:
        del cells["p"]
        tables = split_table(cells, console.width, keys=len(names) + 1)
    yield from map(make_rich_table, tables)


def _make_name_columns(sweep_comparison: SweepComparison) -> Columns:
    """Return the columns with the labels of both configurations; the first also has the values of a few keys."""
    pair_by_ids = {tuple(side.row.config_id for side in pair): pair for pair in sweep_comparison.matching.pairs}
    names = shorten_keys(sweep_comparison.matching.keys)

    def describe_side(index: int, comparison: SeedComparison) -> str:
        side = pair_by_ids[comparison.first, comparison.second][index]
        values = [
            f"{name} {compact_value(side.row.values[key])}" for key, name in names.items() if key in side.row.values
        ]
        return " ".join([side.label, *([", ".join(values)] if len(names) <= MAX_VALUES and index == 0 else [])])

    return [Column("first", partial(describe_side, 0)), Column("second", partial(describe_side, 1))]
