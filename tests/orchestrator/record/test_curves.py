"""Curves in parquet: the same bytes for the same curves, checked when read, never half written."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from orchestrator.errors import DamagedCurves, LedgerError
from orchestrator.record.files.curve_tables import COLUMNS
from orchestrator.record.files.curves import make_evaluation_table, read_curves, write_curves, write_part
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.state.state import SweepState
from tests.orchestrator.record.nothing_measured import NOTHING_MEASURED

MEMBERS = [("c1", 0), ("c1", 5), ("c0", 0)]
PROVENANCE = {"name": "s", "study": "t", "spec": {}, "spec_hash": "h", "provenance": {}}


def make_evaluation(step: int = 50, members: int = 3, seed: int = 0, final: bool = False) -> Any:
    values = np.random.default_rng(seed).random((members, 2, 3, 4), dtype=np.float32)
    return SimpleNamespace(
        step=step, final=final, averages=("raw", "ema"), metrics=("kl", "acc", "tv"), lengths=(3, 5, 9, 40),
        values_MAKL=values,
    )  # fmt: skip


def write(folder: Path, pack_id: str, members: list[tuple[str, int]], evaluation: Any) -> tuple[str, str]:
    return write_part(folder, pack_id, evaluation.step, make_evaluation_table(pack_id, members, evaluation))


def append(ledger: Ledger, pack_id: str, members: list[tuple[str, int]], evaluation: Any) -> str:
    file, sha256 = write(ledger.folder, pack_id, members, evaluation)
    ledger.append(
        "evaluation", pack_id=pack_id, step=evaluation.step, final=evaluation.final, file=file, sha256=sha256,
        loss=[0.0] * len(members), failed_at=[-1] * len(members), seconds=1.0, form="plain", compiled=False,
    )  # fmt: skip
    return file


def begin(ledger: Ledger, packs: dict[str, list[tuple[str, int]]]) -> None:
    names = sorted({name for members in packs.values() for name, _ in members})
    for number, name in enumerate(names):
        named = {"number": number, "config_id": name}
        ledger.append("configuration", **named, values={}, resolved={}, duplicate_of=None, **NOTHING_MEASURED)
    for pack_id, members in packs.items():
        ledger.append("pack", pack_id=pack_id, structural_key="k", members=members, steps=100)


def slow(members: list[tuple[str, int]], evaluation: Any) -> pd.DataFrame:
    """The obvious tidy table of one evaluation."""
    rows = [
        (name, seed, average, metric, length, evaluation.step, evaluation.values_MAKL[m, a, k, n])
        for m, (name, seed) in enumerate(members)
        for a, average in enumerate(evaluation.averages)
        for k, metric in enumerate(evaluation.metrics)
        for n, length in enumerate(evaluation.lengths)
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def test_a_part_holds_every_value_in_its_place(tmp_path: Path) -> None:
    evaluation = make_evaluation()
    file, sha256 = write(tmp_path, "p0", MEMBERS, evaluation)
    table = pq.read_table(tmp_path / file)
    assert hashlib.sha256((tmp_path / file).read_bytes()).hexdigest() == sha256
    assert table.schema.field("value").type == "float"
    assert table.column_names == list(COLUMNS)
    pd.testing.assert_frame_equal(
        table.to_pandas(), slow(MEMBERS, evaluation), check_dtype=False, check_categorical=False
    )


def test_the_same_input_gives_the_same_bytes_in_any_process(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    file, sha256 = write(tmp_path / "a", "p0", MEMBERS, make_evaluation())
    script = (
        "import sys; from pathlib import Path; sys.path.insert(0, sys.argv[2]); import test_curves as t;"
        "print(*t.write(Path(sys.argv[1]), 'p0', t.MEMBERS, t.make_evaluation()))"
    )
    (tmp_path / "b").mkdir()
    arguments = [sys.executable, "-c", script, tmp_path / "b", Path(__file__).parent]
    assert subprocess.check_output(arguments, text=True).split() == [file, sha256]
    assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_other_curves_of_the_same_step_do_not_overwrite_the_first(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "s", PROVENANCE) as ledger:
        begin(ledger, {"p0": MEMBERS})
        first = append(ledger, "p0", MEMBERS, make_evaluation(seed=0))
        second = append(ledger, "p0", MEMBERS, make_evaluation(seed=1))
        third = append(ledger, "p0", MEMBERS, make_evaluation(seed=0))
    assert first == third != second
    state = SweepState.load(tmp_path / "s")
    assert len(state.conflicts) == 1
    assert read_curves(state)["value"].sum() == pytest.approx(make_evaluation(seed=0).values_MAKL.sum())


def test_shapes_that_disagree_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"pack p0 reported curves of shape \(3, 2, 3, 4\), expected \(2, 2, 3, 4\)"):
        write(tmp_path, "p0", MEMBERS[:2], make_evaluation())
    assert list(tmp_path.iterdir()) == []


def test_curves_come_by_configuration_seed_and_step_whatever_the_order(tmp_path: Path) -> None:
    packs = {"p0": MEMBERS, "p1": [("c0", 5), ("c2", 0)]}
    work = [("p0", 50, 0), ("p0", 100, 1), ("p1", 50, 2), ("p1", 100, 3)]
    states = []
    for name, order in (("a", work), ("b", [work[2], work[0], work[1], work[3]])):
        with Ledger.create(tmp_path / name, PROVENANCE) as ledger:
            begin(ledger, packs if name == "a" else dict(reversed(packs.items())))
            for pack_id, step, seed in order:
                evaluation = make_evaluation(step, len(packs[pack_id]), seed, final=step == 100)
                append(ledger, pack_id, packs[pack_id], evaluation)
        states.append(SweepState.load(tmp_path / name))
    curves = read_curves(states[0])
    expected = pd.concat(slow(packs[p], make_evaluation(step, len(packs[p]), seed)) for p, step, seed in work)
    expected = expected.sort_values(["config_id", "seed", "step"], kind="stable").reset_index(drop=True)
    pd.testing.assert_frame_equal(curves[list(COLUMNS)], expected, check_dtype=False, check_categorical=False)
    assert list(curves.columns) == ["config_id", "number", *COLUMNS[1:]]
    assert curves["value"].dtype == np.float32
    assert list(curves["average"].cat.categories) == ["raw", "ema"]
    final = read_curves(states[0], final_only=True)
    pd.testing.assert_frame_equal(final, curves[curves["step"] == 100].reset_index(drop=True))
    paths = [write_curves(state) for state in states]
    assert paths[0] == tmp_path / "a" / "curves.parquet"
    assert paths[0].read_bytes() == paths[1].read_bytes()
    pd.testing.assert_frame_equal(pd.read_parquet(paths[0]), curves)


def test_a_sweep_without_curves_has_an_empty_table(tmp_path: Path) -> None:
    with Ledger.create(tmp_path / "s", PROVENANCE) as ledger:
        begin(ledger, {"p0": MEMBERS})
        for state in (SweepState.load(tmp_path / "s"), SweepState.load(tmp_path / "s")):
            assert list(read_curves(state).columns) == ["config_id", "number", *COLUMNS[1:]]
            assert len(read_curves(state)) == 0
        ledger.append("pack_end", pack_id="p0", status="failed", error="worker died", seconds=1.0)
    state = SweepState.load(tmp_path / "s")
    assert len(read_curves(state, final_only=True)) == 0
    assert len(pd.read_parquet(write_curves(state))) == 0


@pytest.mark.parametrize("evaluated", [True, False])
def test_a_pack_that_died_has_nan_rows_at_its_last_step(tmp_path: Path, evaluated: bool) -> None:
    other = [("c2", 0)]
    with Ledger.create(tmp_path / "s", PROVENANCE) as ledger:
        begin(ledger, {"p0": MEMBERS, "p1": other})
        append(ledger, "p1", other, make_evaluation(100, 1, final=True))
        if evaluated:
            append(ledger, "p0", MEMBERS, make_evaluation(50))
        ledger.append("pack_end", pack_id="p0", status="failed", error="worker died", seconds=1.0)
    curves = read_curves(SweepState.load(tmp_path / "s"))
    final = read_curves(SweepState.load(tmp_path / "s"), final_only=True)
    lost = curves[(curves["step"] == 100) & (curves["config_id"] != "c2")]
    assert len(lost) == 3 * 2 * 3 * 4
    assert lost["value"].isna().all()
    assert not curves.drop(lost.index)["value"].isna().any()
    assert len(curves) == (3 * 24 if evaluated else 0) + 3 * 24 + 24
    assert len(final) == 3 * 24 + 24
    assert not final.duplicated(list(COLUMNS[:-1])).any()


def test_failed_members_stay_as_nan(small_sweep: SweepState) -> None:
    curves = read_curves(small_sweep, final_only=True)
    lost = curves[curves["value"].isna()]
    assert {(str(name), int(seed)) for name, seed in zip(lost["config_id"], lost["seed"], strict=True)} == {
        (list(small_sweep.configurations)[1], 2)
    }
    assert curves.groupby(["config_id", "seed"], observed=True).size().nunique() == 1


@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "missing", "folder"])
def test_a_damaged_part_is_named(small_sweep: SweepState, damage: str) -> None:
    fields = small_sweep.packs["pack0003"].evaluations[100]
    path = small_sweep.folder / fields["file"]
    content = bytearray(path.read_bytes())
    path.unlink()
    if damage == "flip":
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    elif damage == "truncate":
        path.write_bytes(content[:-1])
    elif damage == "empty":
        path.touch()
    elif damage == "folder":
        path.mkdir()
    for read in (read_curves, partial(read_curves, final_only=True), write_curves):
        with pytest.raises(DamagedCurves, match=str(path)):
            read(small_sweep)
    assert not (small_sweep.folder / "curves.parquet").exists()


@pytest.mark.parametrize("small_disk", ["256k"], indirect=True)
def test_a_full_disk_leaves_no_half_part(small_disk: Path) -> None:
    written = []
    with pytest.raises(LedgerError, match=rf"{small_disk}/curves/p0-.*\.parquet: cannot be written: No space left"):
        for step in range(1000):
            written.append(write(small_disk, "p0", MEMBERS, make_evaluation(step)))
    assert len(written) > 10
    assert sorted(path.relative_to(small_disk).as_posix() for path in small_disk.rglob("*.parquet")) == sorted(
        file for file, _ in written
    )
    assert {path.name for path in small_disk.rglob("*") if path.is_file()} == {Path(file).name for file, _ in written}


def test_a_failed_write_keeps_the_older_curves(small_sweep: SweepState, monkeypatch: pytest.MonkeyPatch) -> None:
    before = write_curves(small_sweep).read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(LedgerError, match=r"curves\.parquet: cannot be written: No space left"):
        write_curves(small_sweep)
    assert (small_sweep.folder / "curves.parquet").read_bytes() == before
    assert not [path for path in small_sweep.folder.iterdir() if path.name.startswith(".curves")]


def test_a_part_is_on_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    real = os.fsync

    def watched(descriptor: int) -> None:
        seen.append([path.name for path in (tmp_path / "curves").iterdir() if not path.name.startswith(".")])
        real(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    file, _ = write(tmp_path, "p0", MEMBERS, make_evaluation())
    assert seen == [[], [Path(file).name]]  # its bytes, then its name
