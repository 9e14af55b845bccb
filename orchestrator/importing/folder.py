"""Write imported results as a sweep folder: ledger and curves, as after training."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.importing.members import ImportedMembers, ImportedPack
from orchestrator.importing.table import Results
from orchestrator.record.add_records import add_records
from orchestrator.record.files.curve_tables import make_row_table
from orchestrator.record.files.curves import write_part
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.state.state import SweepState
from orchestrator.running.driving.running_scores import RecordedScores
from search_spaces import Objective

FORM = "imported"  # `form` of imported members, which no trainer computed
NOT_FAILED = -1  # the failure step of a member that did not fail


class ImportedSweepWriter:
    """Writer of the ledger records and the curve files of an imported sweep.

    `configurations` are the fields of each configuration's record. A seed with a NaN among its judged values has
    diverged.
    """

    def __init__(
        self,
        results: Results,
        members: ImportedMembers,
        configurations: Sequence[Mapping[str, Any]],
        objective: Objective,
    ) -> None:
        self._results = results
        self._members = members
        self._objective = objective
        self._configurations = configurations

    def write(self, ledger: Ledger) -> SweepState:
        """Write all records between the first and the last, and return the state of the sweep."""
        # Records come after those they refer to; all of a kind share an fsync, because there may be thousands.
        ledger.append_all("configuration", self._configurations)
        packs = {f"{FORM}-{number}": pack for number, pack in enumerate(self._members.packs)}
        ledger.append_all("pack", [self._make_pack_fields(pack_id, pack) for pack_id, pack in packs.items()])
        for pack_id, pack in packs.items():
            ledger.append_all("evaluation", self._write_evaluations(ledger.folder, pack_id, pack))
        ends = [
            {
                "pack_id": pack_id,
                "status": "complete" if pack.is_complete else "failed",
                "error": None if pack.is_complete else f"no value at step {pack.steps} in {self._results.source}",
                "seconds": 0.0,
            }
            for pack_id, pack in packs.items()
        ]
        ledger.append_all("pack_end", ends)

        # Scores are computed from the written curves, as for a trained sweep, and not imported.
        state = SweepState.load(ledger.folder)
        scores = RecordedScores(self._objective, state)
        scores.score_recorded({pack_id for pack_id, pack in packs.items() if pack.is_complete})
        add_records(ledger, state, "score", map(scores.make_score_fields, state.configurations.values()))
        return state

    def _make_pack_fields(self, pack_id: str, pack: ImportedPack) -> dict[str, Any]:
        """Return the fields of the ledger record of a pack."""
        # The ledger has a hash of this text, so the text keeps the former name of MeasuredCells.
        structure = f"Curves(averages={pack.cells.averages}, lengths={pack.cells.lengths})"
        return {
            "pack_id": pack_id,
            "structural_key": hashlib.sha256(structure.encode()).hexdigest()[:12],
            "members": self._list_member_ids(pack),
            "steps": pack.steps,
        }

    def _list_member_ids(self, pack: ImportedPack) -> list[tuple[str, int]]:
        """Return (config_id, seed) of each member of a pack."""
        return [(self._configurations[number]["config_id"], seed) for number, seed in pack.members]

    def _write_evaluations(self, folder: Path, pack_id: str, pack: ImportedPack) -> Iterator[dict[str, Any]]:
        """Write the curves of a pack, a file for each step, and yield the record of each evaluation."""
        member_ids = self._list_member_ids(pack)
        failed_at = self._find_failure_steps(pack)
        for step, rows in ((int(str(step)), rows) for step, rows in pack.rows.groupby("step", sort=True)):
            columns = tuple(rows[name].to_numpy() for name in ("member", "average", "metric", "length", "value"))
            labels = (member_ids, self._results.averages, self._results.metrics)
            table = make_row_table(labels, [step] * len(member_ids), columns)
            file, sha256 = write_part(folder, pack_id, step, table)

            # Members without a row at this step have no loss; later failures belong to later records.
            loss = np.full(len(member_ids), np.nan)
            loss[columns[0]] = rows["loss"]
            yield {
                "pack_id": pack_id,
                "step": step,
                "final": pack.is_complete and step == pack.steps,
                "file": file,
                "sha256": sha256,
                "loss": loss,
                "failed_at": np.where(failed_at <= step, failed_at, NOT_FAILED),
                "seconds": 0.0,
                "form": FORM,
                "compiled": None,
            }

    def _find_failure_steps(self, pack: ImportedPack) -> np.ndarray[Any, Any]:
        """Return each member's first step with a judged NaN, NOT_FAILED if its last step has none, (members,)."""
        rows = pack.rows
        objective = self._objective
        nan_rows = rows[
            (rows["metric"] == self._results.metrics.index(objective.metric))
            & (rows["average"] == self._results.averages.index(objective.average))
            & rows["length"].isin(objective.lengths)
            & rows["value"].isna()
        ]

        # A member that recovered from a NaN before its last step has not failed.
        first, last = (nan_rows.groupby("member")["step"].agg(statistic) for statistic in ("min", "max"))
        failed = first[last == pack.steps]
        failed_at = np.full(len(pack.members), NOT_FAILED, dtype=np.int64)
        failed_at[failed.index.to_numpy()] = failed.to_numpy()
        return failed_at
