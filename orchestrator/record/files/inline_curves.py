"""Small curves inside the ledger, for sweeps with thousands of packs, which would need tens of thousands of files.

All evaluations with equal averages, metrics and lengths are read into one table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orchestrator.record.files.curve_tables import make_table
from orchestrator.record.state.entities import PackState
from orchestrator.record.state.state import SweepState

SHAPE = ("averages", "metrics", "lengths")


def make_inline_fields(
    averages: Sequence[str], metrics: Sequence[str], lengths: Sequence[int], values_MAKL: npt.NDArray[np.float32]
) -> dict[str, Any]:
    """Return curves as JSON fields of a record: 9 digits represent a float32 exactly; NaN is None."""
    rows = values_MAKL.reshape(len(values_MAKL), -1).tolist()
    values = [[None if math.isnan(value) else float(f"{value:.9g}") for value in row] for row in rows]
    return {"averages": list(averages), "metrics": list(metrics), "lengths": list(lengths), "values": values}


def count_values(curves: Mapping[str, Any]) -> int:
    """Return the number of values in the curves of an evaluation."""
    return sum(map(len, curves["values"]))


def make_inline_table(evaluations: Sequence[tuple[PackState, Mapping[str, Any]]]) -> Any:
    """Return an Arrow table of the curves of evaluations of one shape, up to the steps at which members were pruned.

    `evaluations` are pairs of a pack and the fields of an evaluation.
    """
    # Evaluations after the pruning of all members have no rows.
    averages, metrics, lengths = (evaluations[0][1]["curves"][name] for name in SHAPE)
    members, steps, unpruned_rows, rows = [], [], [], []
    for pack, fields in evaluations:
        step = fields["step"]
        is_unpruned = [step <= pack.pruned_at.get(config_id, step) for config_id, _ in pack.members]
        if any(is_unpruned):
            members += pack.members
            steps += [step] * len(is_unpruned)
            unpruned_rows += is_unpruned
            rows += fields["curves"]["values"]

    shape = (len(rows), len(averages), len(metrics), len(lengths))
    values = np.array(rows, dtype=np.float64).astype(np.float32).reshape(shape)  # None is NaN
    table = make_table(members, averages, metrics, lengths, steps, values)
    return table if all(unpruned_rows) else table.filter(pa.array(np.repeat(unpruned_rows, math.prod(shape[1:]))))


class MissingCurves:
    """NaN curves of packs that never reached their last step, with the shape of another evaluation of the sweep.

    Evaluations of the same structural key are preferred, and final ones, because earlier evaluations of imported
    results may lack metrics. `read_shape` returns the averages, metrics and lengths of an evaluation whose curves are
    in a file.
    """

    def __init__(self, state: SweepState, read_shape: Callable[[Mapping[str, Any]], tuple[list[Any], ...]]) -> None:
        self._packs = state.packs.values()
        self._read_shape = read_shape
        self._shapes: dict[str, tuple[list[Any], ...]] = {}

    def make_fields(self, pack: PackState) -> list[dict[str, Any]]:
        """Return the fields of a pack's missing last evaluation; empty if it is recorded or may still be reached."""
        source = self._find_source(pack) if pack.status == "failed" and not pack.has_last_evaluation else None
        if source is None:
            return []
        shape = self._get_shape(source)
        row = [None] * math.prod(map(len, shape))
        curves = dict(zip(SHAPE, shape, strict=True)) | {"values": [row] * len(pack.members)}
        return [{"step": pack.steps, "curves": curves}]

    def _find_source(self, pack: PackState) -> Mapping[str, Any] | None:
        """Return the fields of the evaluation whose shape the pack gets; None if the sweep has no evaluation."""
        final_by_key, first_by_key = self._evaluations_by_key
        same_structure = [
            final_by_key.get(pack.structural_key),
            *pack.evaluations.values(),
            first_by_key.get(pack.structural_key),
        ]
        return next(filter(None, [*same_structure, *final_by_key.values(), *first_by_key.values()]), None)

    @cached_property
    def _evaluations_by_key(self) -> tuple[dict[str, Mapping[str, Any]], dict[str, Mapping[str, Any]]]:
        """The first final evaluation and the first of any kind, by structural key."""
        final_by_key = dict[str, Mapping[str, Any]]()
        first_by_key = dict[str, Mapping[str, Any]]()
        for pack in self._packs:
            for fields in pack.evaluations.values():
                first_by_key.setdefault(pack.structural_key, fields)
                if fields["final"]:
                    final_by_key.setdefault(pack.structural_key, fields)
        return final_by_key, first_by_key

    def _get_shape(self, fields: Mapping[str, Any]) -> tuple[list[Any], ...]:
        """Return averages, metrics and lengths of an evaluation; a file is read once."""
        if "curves" in fields:
            return tuple(fields["curves"][name] for name in SHAPE)
        if fields["file"] not in self._shapes:
            self._shapes[fields["file"]] = self._read_shape(fields)
        return self._shapes[fields["file"]]
