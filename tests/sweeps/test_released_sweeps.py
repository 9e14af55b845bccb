"""Sweeps that earlier versions wrote go on working: read, summarized, reported on, and resumed to the same curves.

Each folder below a version is a sweep as that version left it; write.py says how they came to be. What is expected
stands beside them. The two functions that come first, and `write.ranked`, are all this module knows of the code.
"""

import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from orchestrator.record.files.curves import read_curves
from orchestrator.record.state.state import SweepState
from orchestrator.report.write_report import write_report
from orchestrator.sweep.run_and_resume import resume_sweep
from tests.sweeps.write import KILLS, VERSIONS, ranked

HERE = Path(__file__).resolve().parent
SWEEPS = sorted(path.parent for path in HERE.glob("*/*/events.jsonl"))
FINISHED = [folder for folder in SWEEPS if folder.with_name(f"{folder.name}.summary.json").exists()]
INTERRUPTED = [folder for folder in SWEEPS if folder.with_name(f"{folder.name}.resumed.json").exists()]
# How near shares of the values are to what an earlier version found on another machine: what is trained after an
# interruption rounds otherwise on another make of processor, and a few margins of nearly equal logits grow by it.
ALLOWED = {0.9: 1e-5, 0.99: 1e-3, 1.0: 1e-2}
SCORES = 1e-4
KEYS = ["config_id", "seed", "average", "metric", "length", "step"]


def resumed(folder: Path) -> SweepState:
    """Resume the sweep in `folder` to its end, in this process."""
    output = io.StringIO()
    outcome = resume_sweep(folder, Console(file=output), ["resources.scheduler=inline"], accept_code_change=True)
    assert outcome.exit_code == 0, output.getvalue()
    return SweepState.load(folder)


def reported(folder: Path) -> tuple[Path, Path]:
    """Write the report of a sweep; its page and its table."""
    return write_report(folder)


def named(folders: list[Path]) -> pytest.MarkDecorator:
    """A test for each of these sweeps."""
    return pytest.mark.parametrize("original", folders, ids=lambda folder: f"{folder.parent.name}/{folder.name}")


def copied(original: Path, to: Path) -> Path:
    """A sweep to work on, with its confirmation beside it where it has one."""
    for path in original.parent.glob(f"{original.name}*/"):
        if path.name in (original.name, f"{original.name}-confirm"):
            shutil.copytree(path, to / path.name)
    return to / original.name


def expected(original: Path, what: str) -> Any:
    """What the version that wrote a sweep made of it."""
    return json.loads(original.with_name(f"{original.name}.{what}.json").read_text())


def plain(rows: Any) -> str:
    """Rows as text, in which NaN equals NaN and tuples are lists."""
    return json.dumps(rows, indent=1)


def test_no_sweep_is_forgotten() -> None:
    for version, names in VERSIONS.items():
        finished, interrupted = (
            {folder.name for folder in folders if folder.parent.name == version} for folders in (FINISHED, INTERRUPTED)
        )
        assert finished == {*names, "finished-confirm"} - {*KILLS}
        assert interrupted == {*names} & {*KILLS}
    assert sorted([*FINISHED, *INTERRUPTED]) == SWEEPS


@named(FINISHED)
def test_a_finished_sweep_has_its_summary_and_its_curves(original: Path, tmp_path: Path) -> None:
    folder = copied(original, tmp_path)
    assert plain(ranked(folder)) == plain(expected(original, "summary"))
    state = SweepState.load(folder)
    assert state.end_status == "complete"
    assert state.conflicts == []
    then = pd.read_parquet(original / "curves.parquet")
    pd.testing.assert_frame_equal(
        read_curves(state)[list(then.columns)], then, check_exact=True, check_categorical=False
    )


@named(FINISHED)
def test_a_finished_sweep_is_reported_on(original: Path, tmp_path: Path) -> None:
    page, table = reported(copied(original, tmp_path))
    assert original.name in page.read_text()
    rows = pd.read_csv(table, dtype={"config_id": str})
    assert rows["config_id"].tolist() == [row["config_id"] for row in expected(original, "summary")]


@pytest.mark.slow
def test_a_confirmation_is_reported_with_what_it_confirms(tmp_path: Path) -> None:
    original = HERE / "1.0.0" / "finished"
    folder = copied(original, tmp_path)
    for name in ("finished", "finished-confirm"):
        page, _ = reported(folder.with_name(name))
        assert "Search score and confirmed score" in page.read_text()
        confirmed = pd.read_csv(folder.with_name(name) / "confirmed.csv", dtype={"config_id": str})
        best = [row["config_id"] for row in expected(original, "summary")][:2]
        assert sorted(confirmed["config_id"].unique()) == sorted(best)


@pytest.mark.slow
@named(INTERRUPTED)
def test_an_interrupted_sweep_is_resumed_to_the_same_curves(original: Path, tmp_path: Path) -> None:
    folder = copied(original, tmp_path)
    before = SweepState.load(folder)
    assert before.end_status is None
    state = resumed(folder)
    assert state.end_status == "complete"
    assert state.conflicts == []
    draws = sorted(state.draws.values(), key=lambda draw: draw.number)
    then = expected(original, "resumed")
    names = {row[1]: draw.config_id for row, draw in zip(then, draws, strict=True)}
    assert len(set(names.values())) == len(names)
    assert all(names[name] == name for name in before.configurations), "what is in the ledger keeps its name"
    assert [[draw.number, draw.config_id, draw.values] for draw in draws] == [
        [number, names[name], values] for number, name, values, _ in then
    ]
    scores = {name: configuration.score for name, configuration in state.configurations.items()}
    np.testing.assert_allclose(
        [scores[draw.config_id] for draw in draws], [row[3] for row in then], rtol=0, atol=SCORES
    )
    curves, known = read_curves(state), pd.read_parquet(original.with_name(f"{original.name}.resumed.parquet"))
    assert len(curves) == len(known)
    known["config_id"] = [names[name] for name in known["config_id"]]
    names_as_text = dict.fromkeys(("config_id", "average", "metric"), str)
    curves, known = (of.astype(names_as_text).sort_values(KEYS) for of in (curves, known))  # metrics in any order
    for key in KEYS:
        assert curves[key].tolist() == known[key].tolist()
    assert_near(curves["value"].to_numpy(), known["value"].to_numpy())
    assert {row["config_id"]: row["score"] for row in ranked(folder)} == scores
    page = (folder / "report.html").read_text()
    assert all(name in page for name in state.configurations)
    if (folder / "weights").exists():
        named_files = {
            file["name"]
            for pack in state.packs.values()
            for fields in pack.evaluations.values()
            for file in fields.get("weights", [])
            if file
        }
        assert {path.name for path in (folder / "weights").iterdir()} == named_files


def assert_near(values: np.ndarray, known: np.ndarray) -> None:
    """Infinite and missing where they were, and the shares of the others as near as ALLOWED says."""
    finite = np.isfinite(known)
    np.testing.assert_array_equal(values[~finite], known[~finite])
    apart = np.abs(values[finite] - known[finite]) / (1 + np.abs(known[finite]))
    for share, most in ALLOWED.items():
        assert np.quantile(apart, share) <= most, (share, float(np.quantile(apart, share)))
