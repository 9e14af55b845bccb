"""What `lengthwise compare` prints and writes: two named configurations against each other over their seeds."""

from collections.abc import Iterator
from pathlib import Path

from rich.console import Console, RenderableType

from orchestrator.errors import UserError
from orchestrator.report.csv_tables import seed_comparison_lines, write_csv
from orchestrator.report.tables.seed_comparison_tables import difference_columns, difference_notes, meaning
from orchestrator.report.terminal.columns import WIDE, prose, rich_table
from orchestrator.results.comparing.named_comparison import NamedComparison
from orchestrator.results.comparing.seed_comparisons import Side
from orchestrator.wording import compact_value, label


def show_comparison(compared: NamedComparison, console: Console) -> None:
    """Print who is compared, in what they differ, and what came out."""
    for part in _parts(compared, console):
        console.print(part)


def write_comparison(compared: NamedComparison, path: Path) -> None:
    """Write a CSV file with the columns of seed_comparisons.csv; raises UserError where it cannot be written."""
    try:
        write_csv(path, seed_comparison_lines(compared.found), ())
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error


def _parts(compared: NamedComparison, console: Console) -> Iterator[RenderableType]:
    result, found = compared.first.result, compared.found
    for name, side in (("First", compared.first), ("Second", compared.second)):
        yield prose(f"{name}: {_who(side)}", console, result)
    differing = found[0].shared.differing
    values = [f"{key} {compact_value(one)} / {compact_value(other)}" for key, (one, other) in differing.items()]
    yield prose(f"They differ in: {', '.join(values) or 'nothing that was recorded'}", console, result)
    yield ""
    wide = console.width >= WIDE
    yield rich_table("", difference_columns(result, found, " " if wide else "\n"), wide, tight=True)
    notes = [f"Here {meaning(found)}", *difference_notes(found)]
    if len(found) > 1:
        notes.append("Each group of lengths has a p of its own, without a correction.")
    if compared.first.result is compared.second.result and 1 in (compared.first.row.rank, compared.second.row.rank):
        notes.append(
            "One of them was ranked first by the selection lengths, so its difference at these favours it, and "
            "at others as far as the same seeds are good at both."
        )
    yield from (prose(note, console, result, "dim") for note in notes)


def _who(side: Side) -> str:
    row, ended = side.row, f"{side.row.seeds_run} seeds, {side.row.seeds_failed} failed"
    place = f"ranked {row.rank} of {side.result.configurations_finished}" if row.rank else "failed"
    return f"{label(row.number)} of {side.result.name} ({row.config_id}, {place}; {ended})"
