"""Small curves in the ledger itself: the same tables as from files, every float32 given back, refused if misshapen."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from orchestrator.errors import DamagedLedger
from orchestrator.interface.measurements import Measurements, make_measurement_fields
from orchestrator.record.files.curves import MAX_INLINE_VALUES, read_curves, store_curves, write_curves
from orchestrator.record.files.inline_curves import make_inline_fields
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.records import INLINE_SCHEMA, SCHEMA, Record, encode_record
from orchestrator.record.repair import repair_ledger
from orchestrator.record.state.state import SweepState
from trainers.tasks.metric_descriptions import RecordedMetric

FIRST = {"name": "s", "study": "t", "spec": {}, "spec_hash": "h", "provenance": {}}
AVERAGES, METRICS, LENGTHS = ("raw", "ema"), ("kl", "acc"), (3, 5, 9, 40)
PACKS = {
    "p0": [("c1", 0), ("c0", 5)],
    "p1": [("c2", 0)],  # loses its last evaluation
    "p2": [("c3", 0)],  # loses every evaluation
    "p3": [("c4", 2)],
}
STEPS = (25, 50, 75, 100)


def measured(lengths: tuple[int, ...]) -> dict[str, Any]:
    """What a configuration measures: `acc` only at these lengths."""
    metrics = {
        "kl": RecordedMetric("kl", "", "minimize", LENGTHS, (3,)),
        "acc": RecordedMetric("acc", "", "maximize", lengths, (3,)),
    }
    return make_measurement_fields(
        Measurements(
            lengths=LENGTHS, averages=AVERAGES, metrics=metrics, longest_trained={}, headline=(), trained={},
            technical=(),
        ),
        (),
    )  # fmt: skip


def make_evaluation(pack_id: str, step: int, *, metrics: tuple[str, ...] = METRICS, lengths: Any = LENGTHS) -> Any:
    members = PACKS[pack_id]
    generator = np.random.default_rng([ord(pack_id[1]), step])
    values = generator.normal(size=(len(members), len(AVERAGES), len(metrics), len(lengths))).astype(np.float32)
    values[0, 0, 0, 1] = np.nan
    return SimpleNamespace(step=step, averages=AVERAGES, metrics=metrics, lengths=lengths, values_MAKL=values)


def append(ledger: Ledger, pack_id: str, evaluation: Any) -> None:
    state = SweepState.load(ledger.folder)
    members = state.packs[pack_id].members
    ledger.append(
        "evaluation", pack_id=pack_id, step=evaluation.step, final=evaluation.step == STEPS[-1],
        **store_curves(state, state.packs[pack_id], evaluation), loss=[0.0] * len(members),
        failed_at=[-1] * len(members), seconds=1.0, form="program", compiled=False,
    )  # fmt: skip


def build(folder: Path, schema: int) -> SweepState:
    """Write the same evaluations, inline with INLINE_SCHEMA."""
    with Ledger.create(folder, {**FIRST, "schema": schema}) as ledger:
        for number in range(5):
            what = measured((3, 5) if number == 4 else LENGTHS)
            ledger.append(
                "configuration", number=number, config_id=f"c{number}", values={"config.lr": 0.1 * number},
                resolved={}, duplicate_of=None, **what,
            )  # fmt: skip
        for pack_id, members in PACKS.items():
            ledger.append("pack", pack_id=pack_id, structural_key="k", members=members, steps=STEPS[-1])
        for step in STEPS:
            append(ledger, "p0", make_evaluation("p0", step))
            append(ledger, "p3", make_evaluation("p3", step, metrics=("acc", "kl")))
            if step <= 50:
                append(ledger, "p1", make_evaluation("p1", step))
        for pack_id in ("p1", "p2"):
            ledger.append("pack_end", pack_id=pack_id, status="failed", error="died", seconds=1.0)
    state = SweepState.load(folder)
    state.packs["p0"].prune(["c1"], 50)
    return state


def test_inline_curves_are_read_as_the_same_table_as_files(tmp_path: Path) -> None:
    inline, files = build(tmp_path / "inline", INLINE_SCHEMA), build(tmp_path / "files", SCHEMA)
    assert not (tmp_path / "inline" / "curves").exists()
    assert len([*(tmp_path / "files" / "curves").iterdir()]) == 10
    for options in (
        {},
        {"final_only": True},
        {"packs": {"p0", "p2"}},
        {"keep": lambda rows: np.asarray(rows["average"] == "ema")},
    ):
        table = read_curves(inline, **options)
        assert len(table)
        pd.testing.assert_frame_equal(table, read_curves(files, **options), check_exact=True)
    assert write_curves(inline).read_bytes() == write_curves(files).read_bytes()
    curves = read_curves(inline)
    assert curves[curves["config_id"] == "c1"]["step"].max() == 50
    assert set(curves[(curves["config_id"] == "c4") & (curves["metric"] == "acc")]["length"]) == {3, 5}
    assert curves[(curves["config_id"] == "c3")]["value"].isna().all()


def test_large_curves_go_to_a_file_of_the_same_sweep(tmp_path: Path) -> None:
    build(tmp_path, INLINE_SCHEMA)
    lengths = tuple(range(1, MAX_INLINE_VALUES // 4 + 2))
    large, step = make_evaluation("p1", 75, lengths=lengths), 75
    with Ledger.open(tmp_path) as ledger:
        append(ledger, "p1", large)
    (part,) = (tmp_path / "curves").iterdir()
    state = SweepState.load(tmp_path)
    curves = read_curves(state, packs={"p1"})
    np.testing.assert_array_equal(curves[curves["step"] == step]["value"].to_numpy(), large.values_MAKL.reshape(-1))
    part.unlink()
    assert any("p1" in line for line in repair_ledger(tmp_path))
    assert sorted(SweepState.load(tmp_path).packs["p1"].evaluations) == [25, 50]


def test_every_float32_is_given_back_from_nine_digits() -> None:
    bits = np.random.default_rng(0).integers(0, 2**32, size=20_000, dtype=np.uint32)
    values = np.append(bits.view(np.float32), np.float32([0.1, -0.0, 1.0, 3.4028235e38, 1e-45]))
    values = values[np.isfinite(values)]
    fields = make_inline_fields(["raw"], ["acc"], [*range(len(values))], values.reshape(1, 1, 1, -1))
    (row,) = json.loads(json.dumps(fields))["values"]
    np.testing.assert_array_equal(np.array(row).astype(np.float32), values)
    digits = [repr(value).partition("e")[0].replace(".", "").strip("-0") for value in row]
    assert max(map(len, digits)) <= 9


def test_a_step_that_is_repeated_inline_is_compared(tmp_path: Path) -> None:
    build(tmp_path, INLINE_SCHEMA)
    with Ledger.open(tmp_path) as ledger:
        append(ledger, "p0", make_evaluation("p0", 50))
        assert not SweepState.load(tmp_path).conflicts
        other = make_evaluation("p0", 50)
        other.values_MAKL = other.values_MAKL + 1
        append(ledger, "p0", other)
    state = SweepState.load(tmp_path)
    assert len(state.conflicts) == 1
    kept = read_curves(state, packs={"p0"}).query("config_id == 'c0' and step == 50")["value"].to_numpy()
    np.testing.assert_array_equal(kept, make_evaluation("p0", 50).values_MAKL[1].reshape(-1))


def test_curves_of_too_few_members_are_damage_of_their_line(tmp_path: Path) -> None:
    build(tmp_path, INLINE_SCHEMA)
    with Ledger.open(tmp_path) as ledger:
        fields = json.loads(json.dumps(SweepState.load(tmp_path).packs["p0"].evaluations[100]))
        fields["curves"]["values"].pop()
        number = ledger.append("evaluation", **fields | {"step": 99}).seq + 1
    with pytest.raises(DamagedLedger, match=f":{number}: p0 has 2 members; 1 were"):
        SweepState.load(tmp_path)


def test_ledgers_with_files_have_the_schema_they_had(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "a", FIRST):
        (line,) = (tmp_path / "a" / "events.jsonl").read_bytes().splitlines(keepends=True)
    time = json.loads(line)["time"]
    assert line == encode_record(Record(0, time, "sweep", {**FIRST, "schema": 2}))
    assert not SweepState.load(tmp_path / "a").inline_curves
