"""A small study with a program of the user's own: a sweep file, and a script that is resumed from its checkpoint."""

import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from orchestrator.record.files.curves import read_curves
from orchestrator.record.state.state import SweepState
from orchestrator.running.driving.equal_failures import EqualFailures
from orchestrator.sweep.run_and_resume import resume_sweep, run_sweep
from search_spaces import dump_yaml
from tests.sweep_files import load_checked

SWEEP: dict[str, Any] = {
    "name": "prog",
    "study": "tests",
    "program": {"command": ["python", "-S", "train.py", "${args}"]},
    "config": {"width": 8},
    "training": {"steps": 30},
    "evaluation": {"every": 10, "lengths": [5, 10, 20], "trained_lengths": [5], "metrics": {"acc": "maximize"}},
    "space": {"config.lr": {"grid": [0.5]}},
    "seeds": 1,
    "objective": {"metric": "acc", "lengths": [10]},
    "resources": {"scheduler": "inline", "grace_seconds": 0.2},
    "tracking": {"enabled": False},
}
# Every value depends on the one before it: a step that is lost or trained twice shows.
SCRIPT = """
import json, os, signal, sys, time
import lengthwise

given = dict(word[2:].split("=", 1) for word in sys.argv[1:])
run = lengthwise.member(steps=30, every=10)
kept = run.checkpoints / "last.json"
step, value = json.loads(kept.read_text()) if kept.exists() else (0, 1 + int(given["seed"]))
print("begins at", step, flush=True)
while step < run.steps:
    step, value = step + 1, value * 48271 % 2147483647
    {step}
    if run.due(step):
        share = value / 2**31
        stop = run.report(step, {{"acc": {{n: share * float(given["lr"]) / n for n in (5, 10, 20)}}}}, loss=share)
        {reported}
        (run.checkpoints / "new").write_text(json.dumps([step, value]))
        os.replace(run.checkpoints / "new", kept)
        if stop:
            break
{end}
"""


def script(step: str = "pass", reported: str = "pass", end: str = "") -> str:
    """Return the script with a line of code at every step, one after every report, and one at the end."""
    return SCRIPT.format(step=step, reported=reported, end=end)


@dataclass
class Study:
    """The folder of a study, in which sweeps are run in this process."""

    folder: Path
    output: str = ""  # of the last run

    def write(self, code: str | None = None, /, name: str = "train.py", **changes: Any) -> Path:
        """Write the script and the sweep file, in which values of dotted keys (`a__b`) are changed."""
        self.folder.mkdir(exist_ok=True)
        (self.folder / name).write_text(script() if code is None else code)
        sweep = {key: dict(value) if isinstance(value, dict) else value for key, value in SWEEP.items()}
        for key, value in changes.items():
            section, _, inner = key.partition("__")
            if inner:
                sweep.setdefault(section, {})[inner] = value
            else:
                sweep[section] = value
        file = self.folder / "prog.yaml"
        file.write_text(dump_yaml({key: value for key, value in sweep.items() if value is not None}))
        return file

    def run(self, *overrides: str, name: str | None = None, **options: Any) -> SweepState:
        """Run the sweep file as far as it goes."""
        spec = load_checked(self.folder / "prog.yaml", list(overrides), name)
        return self._to_the_end(spec.name, lambda console: run_sweep(spec, self.folder / "runs", console, **options))

    def resume(self, state: SweepState, **options: Any) -> SweepState:
        """Resume a sweep as far as it goes."""
        return self._to_the_end(state.folder.name, lambda console: resume_sweep(state.folder, console, **options))

    def _to_the_end(self, name: str, run: Callable[[Console], object]) -> SweepState:
        file = io.StringIO()
        try:
            run(Console(file=file, width=1000))
        except EqualFailures as error:
            file.write(str(error))
        self.output = file.getvalue()
        return SweepState.load(self.folder / "runs" / name)

    def member(self, state: SweepState) -> Path:
        """Return the folder with the reports and logs of the only member."""
        (folder,) = (state.folder / "members").iterdir()
        return folder


def processes_of(folder: Path) -> list[int]:
    """Return the processes of all members of a sweep."""
    variable, alive = f"LENGTHWISE_LOCK={folder.resolve()}/".encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if variable in (process / "environ").read_bytes():
                alive.append(int(process.name))
        except OSError:
            pass
    return alive


def wait_until(is_true: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.05)  # most conditions look through all of /proc


def assert_equal_curves(state: SweepState, other: SweepState) -> None:
    keys = ["config_id", "seed", "step", "average", "metric", "length"]
    tables = [read_curves(each).sort_values(keys).reset_index(drop=True) for each in (state, other)]
    for table in tables:
        assert not table.duplicated(keys).any()
    assert tables[0].equals(tables[1])
