"""Group the members of a table: those with values at the last step of their configuration, and those without.

The last step of a configuration is the last with a value of the judged metric and average. A configuration measures
the metrics, averages and lengths of its rows at this step. Other rows are counted and left out.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from orchestrator.errors import UserError
from orchestrator.importing.table import Codes, Results
from orchestrator.text.wording import format_count, format_ranges

Missing = Literal["failed", "absent"]
MAX_SHOWN_MEMBERS = 3  # members in a message


@dataclass(frozen=True, kw_only=True)
class MeasuredCells:
    """The measured averages by index, and the lengths of each measured metric by the index of the metric."""

    averages: tuple[int, ...]
    lengths: dict[int, tuple[int, ...]]


@dataclass(frozen=True, kw_only=True)
class ImportedPack:
    """The members (configuration, seed) of a pack: all complete, or all without a value at their last step.

    `rows` are sorted by step, then member; their column `member` is the index in `members`.
    """

    members: tuple[tuple[int, int], ...]
    cells: MeasuredCells
    steps: int
    is_complete: bool
    rows: pd.DataFrame


@dataclass(frozen=True, kw_only=True)
class ImportedMembers:
    """The packs of a table, the cells and last step of each configuration, all seeds, and notes on omitted rows."""

    packs: tuple[ImportedPack, ...]
    cells: tuple[MeasuredCells, ...]
    last_steps: tuple[int, ...]
    seeds: tuple[int, ...]
    notes: tuple[str, ...]


def group_members(results: Results, metric: str, average: str, missing: Missing | None) -> ImportedMembers:
    """Return the members of a table, grouped into packs.

    `missing` says whether members without a value at the last step count as failed seeds or are left out. Raises
    UserError if it is None and there are such members, for a member with only a part of the values at its last step,
    and for a configuration without the judged metric.
    """
    rows = results.rows
    last_steps = _find_last_steps(results, metric, average)
    rows, distinct_cells, cells_index_C, notes = _select_measured_rows(results, last_steps)

    # A member has the code configuration * seeds + index of its seed; it is complete with all values at its last step.
    # Shapes: R rows, C configurations, M members with a row at their last step.
    seeds, seed_index_R = np.unique(rows["seed"].to_numpy(), return_inverse=True)
    codes_R = rows["configuration"].to_numpy() * len(seeds) + seed_index_R
    is_last_R = rows["step"].to_numpy() == last_steps[rows["configuration"].to_numpy()]
    complete_codes_M, value_counts_M = np.unique(codes_R[is_last_R], return_counts=True)

    # A member with a part of its values is a mistake in the table, not a failed seed.
    counts = [len(cells.averages) * sum(map(len, cells.lengths.values())) for cells in distinct_cells]
    expected_counts_C = np.array(counts)[cells_index_C]
    if (is_partial_M := value_counts_M < expected_counts_C[complete_codes_M // len(seeds)]).any():
        configuration, seed_index = divmod(int(complete_codes_M[int(np.argmax(is_partial_M))]), len(seeds))
        raise UserError(
            _describe_missing_value(
                results,
                rows[is_last_R],
                configuration,
                int(seeds[seed_index]),
                distinct_cells[cells_index_C[configuration]],
            )
        )

    # Only the user knows whether members without a value at the last step have failed.
    incomplete_codes = np.setdiff1d(np.arange(len(last_steps) * len(seeds)), complete_codes_M)
    if len(incomplete_codes) and missing is None:
        raise UserError(_describe_incomplete_members(results, incomplete_codes, codes_R, seeds, last_steps))
    failed_codes = incomplete_codes[:0] if missing == "absent" else incomplete_codes
    if missing == "absent" and len(incomplete_codes):
        notes.append(f"{format_count(len(incomplete_codes), 'member')} without a value at the last step left out")

    # The members of a pack have the same measurements and last step, and are all complete or all failed.
    packs = []
    rows = rows.assign(code=codes_R)
    for is_complete, member_codes in ((True, complete_codes_M), (False, failed_codes)):
        codes_by_pack: dict[tuple[int, int], list[int]] = {}
        for code in member_codes.tolist():
            configuration = code // len(seeds)
            key = (int(cells_index_C[configuration]), int(last_steps[configuration]))
            codes_by_pack.setdefault(key, []).append(code)

        # Decode members into (configuration, seed).
        for (cells_index, steps), pack_codes in codes_by_pack.items():
            members = tuple((code // len(seeds), int(seeds[code % len(seeds)])) for code in pack_codes)
            pack_rows = _select_members(rows, np.array(pack_codes))
            packs.append(
                ImportedPack(
                    members=members,
                    cells=distinct_cells[cells_index],
                    steps=steps,
                    is_complete=is_complete,
                    rows=pack_rows,
                )
            )
    return ImportedMembers(
        packs=tuple(packs),
        cells=tuple(distinct_cells[index] for index in cells_index_C),
        last_steps=tuple(last_steps.tolist()),
        seeds=tuple(seeds.tolist()),
        notes=tuple(notes),
    )


def _find_last_steps(results: Results, metric: str, average: str) -> Codes:
    """Return the last step of each configuration that has the judged metric and average.

    Raises UserError for a configuration without them.
    """
    rows = results.rows
    is_judged = (rows["metric"] == results.metrics.index(metric)) & (rows["average"] == results.averages.index(average))
    last_steps = np.full(len(results.configurations), -1, dtype=np.int64)
    np.maximum.at(last_steps, rows.loc[is_judged, "configuration"].to_numpy(), rows.loc[is_judged, "step"].to_numpy())
    if (last_steps < 0).any():
        configuration = results.describe_configuration(int(np.argmax(last_steps < 0)))
        raise UserError(f"{results.source}: {configuration}: no {metric} of the average {average}")
    return last_steps


def _select_measured_rows(
    results: Results, last_steps: Codes
) -> tuple[pd.DataFrame, list[MeasuredCells], Codes, list[str]]:
    """Return the measured rows, the distinct measured cells, their index for each configuration, and notes.

    A row is measured if it is not after the last step of its configuration, and its cell (average, metric, length) has
    a row at the last step.
    """
    # The code of a row is its configuration and its cell; codes at the last step are measured. Shapes: R rows.
    rows = results.rows
    lengths, length_index_R = np.unique(rows["length"].to_numpy(), return_inverse=True)
    shape = (len(results.averages), len(results.metrics), len(lengths))
    cell_R = np.ravel_multi_index((rows["average"], rows["metric"], length_index_R), shape)
    configuration_R = rows["configuration"].to_numpy()
    step_R = rows["step"].to_numpy()
    codes_R = configuration_R * np.prod(shape) + cell_R
    measured_codes = np.unique(codes_R[step_R == last_steps[configuration_R]])
    is_measured_R = (step_R <= last_steps[configuration_R]) & np.isin(codes_R, measured_codes)

    # `measured_codes` is sorted, so each configuration has a run of it; those with equal cells share them.
    distinct_cells = list[MeasuredCells]()
    index_by_cells = dict[bytes, int]()
    cells_indices = np.zeros(len(last_steps), dtype=np.int64)
    code_ends = np.searchsorted(measured_codes // np.prod(shape), np.arange(len(last_steps) + 1))
    for number, (first, end) in enumerate(itertools.pairwise(code_ends)):
        cells = measured_codes[first:end] % np.prod(shape)
        if cells.tobytes() not in index_by_cells:
            index_by_cells[cells.tobytes()] = len(distinct_cells)
            distinct_cells.append(_make_measured_cells(results, lengths, np.unravel_index(cells, shape)))
        cells_indices[number] = index_by_cells[cells.tobytes()]

    # Say which rows are left out, because the results then have fewer metrics or lengths than the table.
    notes = []
    if not is_measured_R.all():
        names = ", ".join(results.metrics[k] for k in np.unique(rows["metric"].to_numpy()[~is_measured_R]))
        count = f"{int((~is_measured_R).sum()):,} of {len(rows):,} rows left out"
        notes.append(f"{count} ({names}): nothing with their average, metric and length at the last step")
    return rows[is_measured_R], distinct_cells, cells_indices, notes


def _make_measured_cells(results: Results, lengths: Codes, cells: tuple[npt.NDArray[Any], ...]) -> MeasuredCells:
    """Return these cells by index. Raises UserError if averages differ in the lengths of a metric."""
    averages, metrics, length = cells
    lengths_by_average = {
        int(a): {int(k): tuple(lengths[length[(averages == a) & (metrics == k)]].tolist()) for k in np.unique(metrics)}
        for a in np.unique(averages)
    }

    # A curve file has one list of lengths per metric, for all averages.
    first, *other_averages = lengths_by_average.items()
    for a, by_metric in other_averages:
        for k, metric_lengths in by_metric.items():
            if metric_lengths != first[1][k]:
                names = f"{results.averages[first[0]]} and {results.averages[a]}"
                text = f"{results.metrics[k]}: different lengths of the averages {names} at the last step"
                raise UserError(f"{results.source}: {text}; allowed: the same lengths for every average")
    return MeasuredCells(averages=tuple(lengths_by_average), lengths=first[1])


def _describe_missing_value(
    results: Results, rows: pd.DataFrame, configuration: int, seed: int, cells: MeasuredCells
) -> str:
    """Return a message on the first value that a member lacks; `rows` are those at the last steps."""
    member_rows = rows[(rows["configuration"] == configuration) & (rows["seed"] == seed)]
    present_cells = set(member_rows[["average", "metric", "length"]].itertuples(index=False, name=None))
    expected = ((a, k, length) for a in cells.averages for k, lengths in cells.lengths.items() for length in lengths)
    a, k, length = next(cell for cell in expected if cell not in present_cells)
    member = f"{results.source}: {results.describe_configuration(configuration)}, seed {seed}"
    missing_value = f"{results.metrics[k]} of the average {results.averages[a]} at length {length}"
    return f"{member}: no {missing_value} at the last step, {member_rows['step'].iloc[0]}, unlike other seeds"


def _describe_incomplete_members(
    results: Results, incomplete_codes: Codes, codes: Codes, seeds: Codes, last_steps: Codes
) -> str:
    """Return a message on members without a value at the last step, with the options for them."""
    codes_with_rows = set(codes.tolist())
    lines = []
    for code in incomplete_codes[:MAX_SHOWN_MEMBERS].tolist():
        configuration, seed_index = divmod(code, len(seeds))
        reason = f"no row at its last step, {last_steps[configuration]}" if code in codes_with_rows else "no row"
        lines.append(f"{results.describe_configuration(configuration)}, seed {seeds[seed_index]}: {reason}")
    omitted = (
        [f"and {len(incomplete_codes) - MAX_SHOWN_MEMBERS:,} more"] if len(incomplete_codes) > MAX_SHOWN_MEMBERS else []
    )

    count = f"{len(incomplete_codes):,} of {len(last_steps) * len(seeds):,} members have no value at the last step"
    count += f" ({len(last_steps):,} configurations, seeds {format_ranges(seeds.tolist())})"
    choice = "--missing failed counts them as failed seeds, --missing absent leaves them out"
    return f"{results.source}: {count}; {choice}:\n  " + "\n  ".join([*lines, *omitted])


def _select_members(rows: pd.DataFrame, codes: Codes) -> pd.DataFrame:
    """Return the rows of the members with these sorted codes, by step, then by member, average, metric and length."""
    index = np.searchsorted(codes, rows["code"].to_numpy())
    is_selected = codes[np.minimum(index, len(codes) - 1)] == rows["code"].to_numpy()
    selected = rows[is_selected].assign(member=index[is_selected])
    order = np.lexsort([selected[name] for name in ("length", "metric", "average", "member", "step")])
    return selected.iloc[order]
