"""List the sweeps of a storage folder: state, finished configurations and seeds, best score, age."""

import math
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from orchestrator.addresses import find_address, get_address_or_path
from orchestrator.errors import LengthwiseError, UserError
from orchestrator.mirror.fetch import fetch_storage
from orchestrator.record.ledger.folders import describe_no_sweeps, list_sweep_folders
from orchestrator.record.state.lineage import CONFIRMS
from orchestrator.record.state.state import SweepState
from orchestrator.results.scoring.search_design import count_planned
from orchestrator.results.sweep_status import describe_sweep_status
from orchestrator.running.watching.meter import count_seeds, format_best_score
from orchestrator.text.consoles import FILE_WIDTH
from orchestrator.text.wording import format_duration, format_metric
from trainers.errors import get_first_line

HEADER = ("name", "state", "configurations", "seeds", "best score", "age", "confirms", "metric", "size", "study")
# Columns left out of a narrow table, in this order.
DROPPED = ("study", "size", "configurations", "confirms", "metric", "age")


def list_sweeps(storage: Path, *, is_default: bool = False, width: int = FILE_WIDTH) -> list[str]:
    """Return the lines of the table, the newest sweep first, and then a line for each sweep that cannot be read.

    Columns that make the table wider than `width` characters are left out. Raises UserError if the folder does not
    exist. `is_default`: the user did not name the folder.
    """
    problems = fetch_storage(storage, strict=False)
    if not storage.is_dir() and find_address(storage) is None:
        missing = f"{storage} does not exist; --storage is the folder of the sweeps"
        raise UserError(describe_no_sweeps(storage) if is_default else missing)
    folders = list_sweep_folders(storage)
    if not folders:
        return [describe_no_sweeps(storage) if is_default else f"no sweeps in {get_address_or_path(storage)}"]

    # A sweep that cannot be read must not hide the others.
    states: list[SweepState] = []
    for folder in folders:
        try:
            states.append(SweepState.load(folder))
        except LengthwiseError as error:
            problems.append(f"cannot be read: {get_first_line(error)}")
    rows = [HEADER, *map(_make_row, sorted(states, key=lambda state: -(state.started_at or math.inf)))]
    columns = {column[0]: column for column in zip(*rows, strict=True)}
    if not any(columns["confirms"][1:]):
        del columns["confirms"]
    for name in DROPPED:
        if name in columns and sum(max(map(len, column)) + 2 for column in columns.values()) - 2 > width:
            del columns[name]
    padded = [[cell.ljust(max(map(len, column))) for cell in column] for column in columns.values()]
    return [*("  ".join(row).rstrip() for row in zip(*padded, strict=True)), *problems]


def sum_file_sizes(folder: Path) -> int:
    """Return the total bytes of all files in a folder."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # a running sweep replaces its checkpoints
            total += 0 if path.is_dir() else path.lstat().st_size
    return total


def format_size(count: int) -> str:
    """Return a number of bytes with a unit: format_size(2_500_000) -> "2.4 MiB"."""
    power = min((max(count, 1).bit_length() - 1) // 10, 3)
    return f"{count / 1024**power:.1f} {('B', 'KiB', 'MiB', 'GiB')[power]}" if power else f"{count} B"


def _make_row(state: SweepState) -> tuple[str, ...]:
    """Return the cells of a sweep, as in HEADER."""
    objective = state.spec.get("objective")
    age = max(0.0, time.time() - (state.started_at or time.time()))
    counts = Counter(member.status for member in state.members)
    return (
        state.folder.name,
        describe_sweep_status(state),
        f"{state.configurations_done} of {count_planned(state)}",
        f"{counts['complete'] + counts['failed']} of {count_seeds(state)}, {counts['failed'] or 'none'} failed",
        format_best_score(state, "-"),
        f"{int(age // 86400)} d" if age >= 86400 else " ".join(format_duration(age).split()[:2]),  # without seconds
        state.provenance.get(CONFIRMS, {}).get("sweep", ""),
        format_metric(objective["metric"], objective["average"]) if objective else "-",
        format_size(sum_file_sizes(state.folder)),
        state.study,
    )
