"""The command `lengthwise compare`: two configurations over their seeds, or whole sweeps with the first one."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console, RenderableType

from orchestrator.errors import NotASweep, UserError, refuse_unwritable
from orchestrator.mirror.fetch import find_sweep
from orchestrator.record.ledger.folders import has_ledger
from orchestrator.record.state.state import SweepState
from orchestrator.report.csv_tables import write_csv
from orchestrator.report.sweep_comparison import show_sweep_comparison, sweep_comparison_lines
from orchestrator.report.tables.columns import make_cells
from orchestrator.report.tables.seed_comparisons import comparison_columns, comparison_lines, difference_notes, meaning
from orchestrator.report.terminal import lay_out, prose, rich_table
from orchestrator.results.comparing.named_comparison import NamedComparison, compare_named
from orchestrator.results.comparing.seed_comparisons import Side
from orchestrator.results.comparing.sweep_comparison import SweepComparison, compare_sweeps
from orchestrator.results.summarise import summary
from orchestrator.results.summary import Summary
from orchestrator.targets import check_ending, check_targets
from orchestrator.wording import compact_pair, label


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
    """Print a comparison; write it to `csv` and draw it to `figure` if they are given, and yield their paths.

    `others` are two configurations of the sweep in `folder`, or sweeps if any of them is one. Raises UserError for
    other names, for files that exist unless `force`, and what `compare_named` and `compare_sweeps` raise.
    """
    if csv is not None:
        check_ending("csv", csv, ".csv")
        check_targets([csv], force=force)
    if figure is not None:
        from orchestrator.figures.drawing import check_figure_path  # brings matplotlib

        check_figure_path(figure, force=force)
    if len(others) != 2 or any(map(_names_sweep, others)):
        found = _compare_all([folder, *map(find_sweep, others)], metric, average, lengths)
        for place, one in enumerate(found):
            if place:
                console.print("")
            show_sweep_comparison(one, console)
        lines = sweep_comparison_lines(found)
    elif figure is not None:
        raise UserError(f"--figure {figure}: only whole sweeps are drawn; lengthwise report draws configurations")
    else:
        compared = compare_named(folder, *others, metric=metric, average=average, lengths=lengths)
        for part in _show_named(compared, console):
            console.print(part)
        lines = comparison_lines(compared.comparisons)
    if figure is not None:
        from orchestrator.figures.sweep_differences import difference_figure

        drawn = [one for one in found if one.by_length]
        if not drawn:
            raise UserError(f"--figure {figure}: the matched configurations have no lengths in common")
        yield f"Figure: {difference_figure(drawn, figure)}"
    if csv is not None:
        with refuse_unwritable(csv):
            write_csv(csv, lines, ())
        yield f"wrote {csv}"


def _show_named(compared: NamedComparison, console: Console) -> Iterator[RenderableType]:
    """Yield which configurations are compared, the keys in which they differ, and their differences."""
    result, comparisons = compared.first.result, compared.comparisons
    for name, side in (("First", compared.first), ("Second", compared.second)):
        yield prose(f"{name}: {_describe(side)}", console, result)
    differing = comparisons[0].shared.differing
    values = [f"{key} {' / '.join(compact_pair(*pair))}" for key, pair in differing.items()]
    yield prose(f"They differ in: {', '.join(values) or 'nothing that was recorded'}", console, result)
    yield ""
    cells = make_cells(comparisons, comparison_columns(comparisons, result.infinite))
    yield from map(rich_table, lay_out(cells, console.width, keys=1))
    notes = [f"Here {meaning(comparisons)}", *difference_notes(comparisons)]
    if len(comparisons) > 1:
        notes.append("Each group of lengths has its own p, not corrected for their number.")
    if compared.first.result is compared.second.result and 1 in (compared.first.row.rank, compared.second.row.rank):
        notes.append(
            "One of them was ranked first by the selection lengths, so differences there favour it, and differences at "
            "other lengths too as far as seeds that are good at one are good at the other."
        )
    yield from (prose(note, console, result, "dim") for note in notes)


def _describe(side: Side) -> str:
    row = side.row
    place = f"ranked {row.rank} of {side.result.configurations_finished}" if row.rank else "failed"
    ended = f"{row.seeds_run} seeds, {row.seeds_failed} failed"
    return f"{label(row.number)} of {side.result.name} ({row.config_id}, {place}; {ended})"


def _names_sweep(name: str) -> bool:
    """Return whether a name is that of a sweep; otherwise it is that of a configuration."""
    try:
        return has_ledger(find_sweep(name))
    except NotASweep:  # an address
        return False


def _compare_all(
    folders: Sequence[Path], metric: str | None, average: str | None, lengths: str | None
) -> list[SweepComparison]:
    """Compare the first sweep with each of the others."""
    read: dict[Path, Summary] = {}
    for folder in folders:
        if folder.resolve() not in read:
            read[folder.resolve()] = summary(_load(folder, folders[0]))
    first, *others = (read[folder.resolve()] for folder in folders)
    return [compare_sweeps(first, other, metric=metric, average=average, lengths=lengths) for other in others]


def _load(folder: Path, first: Path) -> SweepState:
    try:
        return SweepState.load(folder)
    except NotASweep as error:
        if folder == first:
            raise
        raise NotASweep(f"{error}; allowed: other sweeps, or two configurations of {first}") from None
