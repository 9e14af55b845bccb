"""The command `lengthwise compare`: two configurations over their seeds, or whole sweeps with the first one."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console

from orchestrator.errors import NotASweep, UserError
from orchestrator.mirror.fetch import find_sweep
from orchestrator.record.ledger.folders import has_ledger
from orchestrator.record.state.state import SweepState
from orchestrator.report.csv_tables import Lines, seed_comparison_lines, write_csv
from orchestrator.report.named_comparison import show_comparison
from orchestrator.report.sweep_comparison import show_sweep_comparison, sweep_comparison_lines
from orchestrator.results.comparing.named_comparison import compare_named
from orchestrator.results.comparing.sweep_comparison import SweepComparison, compare_sweeps
from orchestrator.results.summarise import summary
from orchestrator.results.summary import Summary


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
) -> Iterator[str]:
    """Print a comparison; write it to `csv` and draw it to `figure` if they are given, and yield their paths.

    `others` are two configurations of the sweep in `folder`, or sweeps if any of them is one. Raises UserError for
    other names, for files that would be overwritten, and what `compare_named` and `compare_sweeps` raise.
    """
    if csv is not None and csv.exists():
        raise UserError(f"{csv} exists; name another file, or remove it")
    if figure is not None:
        from orchestrator.figures.drawing import check_figure_path  # brings matplotlib

        check_figure_path(figure)
    sweeps = [find_sweep(name) for name in others]
    if len(others) != 2 or any(map(has_ledger, sweeps)):
        found = _compare_all([folder, *sweeps], metric, average, lengths)
        for place, one in enumerate(found):
            if place:
                console.print("")
            show_sweep_comparison(one, console)
        lines = sweep_comparison_lines(found)
    elif figure is not None:
        raise UserError(f"--figure {figure}: only whole sweeps are drawn; lengthwise report draws configurations")
    else:
        compared = compare_named(folder, *others, metric=metric, average=average, lengths=lengths)
        show_comparison(compared, console)
        lines = seed_comparison_lines(compared.comparisons)
    if figure is not None:
        from orchestrator.figures.sweep_differences import difference_figure

        drawn = [one for one in found if one.by_length]
        if not drawn:
            raise UserError(f"--figure {figure}: the matched configurations have no lengths in common")
        yield f"Figure: {difference_figure(drawn, figure)}"
    if csv is not None:
        _write(lines, csv)
        yield f"wrote {csv}"


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


def _write(lines: Lines, path: Path) -> None:
    """Write a CSV file; raises UserError if it cannot be written."""
    try:
        write_csv(path, lines, ())
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error
