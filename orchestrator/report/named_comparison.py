"""What `lengthwise compare` prints and writes: two named configurations against each other over their seeds."""

from collections.abc import Iterator

from rich.console import Console, RenderableType

from orchestrator.report.tables.columns import make_cells
from orchestrator.report.tables.seed_comparisons import difference_columns, difference_notes, meaning
from orchestrator.report.terminal import lay_out, prose, rich_table
from orchestrator.results.comparing.named_comparison import NamedComparison
from orchestrator.results.comparing.seed_comparisons import Side
from orchestrator.wording import compact_value, label


def show_comparison(compared: NamedComparison, console: Console) -> None:
    """Print which configurations are compared, the keys in which they differ, and their differences."""
    for part in _parts(compared, console):
        console.print(part)


def _parts(compared: NamedComparison, console: Console) -> Iterator[RenderableType]:
    result, comparisons = compared.first.result, compared.comparisons
    for name, side in (("First", compared.first), ("Second", compared.second)):
        yield prose(f"{name}: {_describe(side)}", console, result)
    differing = comparisons[0].shared.differing
    values = [f"{key} {compact_value(one)} / {compact_value(other)}" for key, (one, other) in differing.items()]
    yield prose(f"They differ in: {', '.join(values) or 'nothing that was recorded'}", console, result)
    yield ""
    cells = make_cells(comparisons, difference_columns(result, comparisons))
    yield from map(rich_table, lay_out(cells, console.width, keys=1))
    notes = [f"Here {meaning(comparisons)}", *difference_notes(comparisons)]
    if len(comparisons) > 1:
        notes.append("Each group of lengths has its own p, without a correction.")
    if compared.first.result is compared.second.result and 1 in (compared.first.row.rank, compared.second.row.rank):
        notes.append(
            "One of them was ranked first by the selection lengths, so its difference there favours it, and at other "
            "lengths as far as the same seeds are good at both."
        )
    yield from (prose(note, console, result, "dim") for note in notes)


def _describe(side: Side) -> str:
    row = side.row
    place = f"ranked {row.rank} of {side.result.configurations_finished}" if row.rank else "failed"
    ended = f"{row.seeds_run} seeds, {row.seeds_failed} failed"
    return f"{label(row.number)} of {side.result.name} ({row.config_id}, {place}; {ended})"
