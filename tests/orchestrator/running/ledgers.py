"""Ledgers begun, waited for and cut short, sweeps compared bit for bit, and settings as words of a command."""

import json
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from orchestrator.record.files.curves import read_curves
from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.records import Record, read_records
from orchestrator.record.state.state import SweepState
from search_spaces import SweepSpec

KEYS = ["config_id", "seed", "average", "metric", "length", "step"]


def sets(*settings: str) -> list[str]:
    """sets("seeds=2", "a=b") is ["--set", "seeds=2", "--set", "a=b"]."""
    return [word for setting in settings for word in ("--set", setting)]


def keyed(sweep: SweepState | Path) -> pd.Series:
    """Every value of every curve of a sweep, from its ledger."""
    state = sweep if isinstance(sweep, SweepState) else SweepState.load(sweep)
    names = dict.fromkeys(("config_id", "average", "metric"), str)
    return read_curves(state).astype(names).set_index(KEYS)["value"].sort_index()


def same_curves(state: SweepState, whole: SweepState) -> bool:
    """Whether every member has the curves, bit for bit, that it has in a sweep that may have more members and steps."""
    mine = keyed(state)
    return len(mine) > 0 and mine.equals(keyed(whole).loc[mine.index])


def scores(state: SweepState) -> dict[str, Any]:
    """The score of every configuration."""
    return {name: configuration.score for name, configuration in state.configurations.items()}


def evaluated_once(folder: Path) -> bool:
    """Whether no evaluation of a pack is recorded twice."""
    evaluations = [record.fields for record in read_records(folder) if record.kind == "evaluation"]
    return set(Counter((fields["pack_id"], fields["step"]) for fields in evaluations).values()) == {1}


def begin_ledger(folder: Path, spec: SweepSpec, **more: Any) -> Ledger:
    """Begin the ledger of a sweep of which nothing is drawn yet, with more fields in its first record."""
    first = {"name": spec.name, "study": spec.study, "spec": spec.resolved(), "spec_hash": spec.spec_hash}
    return Ledger.create(folder, {**first, "provenance": {}, **more})


def ledger_lines(folder: Path) -> list[bytes]:
    return (folder / LEDGER_FILE).read_bytes().splitlines(keepends=True)


def ledger_kinds(folder: Path) -> list[str]:
    """The kind of every line of the ledger."""
    return [json.loads(line)["kind"] for line in ledger_lines(folder)]


def cut_ledger(folder: Path, count: int, whole: Path | None = None) -> None:
    """Leave the first `count` lines of the ledger, or put those of the sweep `whole` there: as of a killed driver."""
    (folder / LEDGER_FILE).write_bytes(b"".join(ledger_lines(whole or folder)[:count]))


def copy_cut(whole: Path, folder: Path, count: int) -> None:
    """Put a copy of the sweep `whole`, but only the first `count` lines of its ledger, in the place of a folder."""
    shutil.rmtree(folder)
    shutil.copytree(whole, folder)
    cut_ledger(folder, count)


def wait_for(condition: Callable[[], Any], process: subprocess.Popen[str] | None = None) -> Any:
    """The first true value of `condition`; fails the test when `process` ends without it, or after ten minutes."""
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline:
        ended = process is not None and process.poll() is not None  # looked at before the condition: it may be the end
        if result := condition():
            return result
        if ended and process is not None:
            raise AssertionError(f"it ended first, with {process.returncode}: {process.communicate()}")
        time.sleep(0.05)
    raise AssertionError("waited in vain")


def records(folder: Path, kind: str) -> list[Record]:
    """The records of one kind in a ledger that may be being written, or not exist yet."""
    return (
        [record for record in read_records(folder) if record.kind == kind] if (folder / "events.jsonl").exists() else []
    )


def curves(folder: Path) -> pd.DataFrame:
    """The derived table of a sweep that has ended."""
    return pd.read_parquet(folder / "curves.parquet")
