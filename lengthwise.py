"""The client of a program that lengthwise trains: one file without dependencies, which may be copied beside a script.

    run = lengthwise.member({"lr": 1e-3}, steps=2000, every=100)           # in a sweep its values replace these
    for step in range(1, run.steps + 1):
        train(run.config["lr"], run.seed)
        if run.due(step):
            stop = run.report(step, {"exact_match": {5: 1.0, 10: 0.4}}, loss=0.1)
            save(run.checkpoints)                                          # after the report, so that none is lost
            if stop:
                break

Outside of a sweep reports are printed, and `report` never asks to stop. `run`, `open_sweep` and `import_table` are
those of the installed package.
"""

from __future__ import annotations

import difflib
import importlib
import json
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from orchestrator import import_table as import_table
    from orchestrator import open_sweep as open_sweep
    from orchestrator import run as run

RANK_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")  # of torchrun, srun, mpirun
_EXPORTS = {"run": "orchestrator", "open_sweep": "orchestrator", "import_table": "orchestrator"}


class Member:
    """One configuration with one seed, to be trained by this program.

    config, seed, steps: what to train; config has the defaults of the program with the values of the sweep in their
    place. every: steps between reports, None if only the last step is due. reported: the last recorded step, or 0.
    stop_at: the step at which `report` asks to stop, or None.
    """

    def __init__(self, config: Mapping[str, Any], seed: int, steps: int, every: int | None) -> None:
        self._reports = os.environ.get("LENGTHWISE_REPORTS")
        self._has_warned = False  # of checkpoints of an earlier run
        path = self._read_variable("CONFIG")
        given = json.loads(Path(path).read_text(encoding="utf-8")) if path else {}
        _refuse_misspelt(given, config)
        self.config: dict[str, Any] = {**config, **given}
        self.seed = int(self._read_variable("SEED") or seed)
        self.steps = int(self._read_variable("STEPS") or steps)
        self.every = (int(self._read_variable("EVERY") or 0) or None) if self._reports else every  # empty: at the end
        self.reported = int(self._read_variable("REPORTED") or 0)
        self.stop_at = int(self._read_variable("STOP_AT") or 0) or None
        defaults = {key: value for key, value in config.items() if key not in given}
        if self._reports and defaults:  # else only the code would tell with which values this member trained
            self._write_report({"defaults": json.loads(json.dumps(defaults, default=str, skipkeys=True))})

    @property
    def checkpoints(self) -> Path:
        """The folder for saved states, which the next attempt finds again; outside of a sweep `checkpoints/` here."""
        folder = Path(self._read_variable("CHECKPOINTS") or "checkpoints")
        folder.mkdir(parents=True, exist_ok=True)
        if not self._reports and not self._has_warned and any(folder.iterdir()):
            print(
                f"lengthwise: {folder}/ is not empty, so this run may resume from it; delete it to begin anew",
                file=sys.stderr,
            )
        self._has_warned = True
        return folder

    def due(self, step: int) -> bool:
        """Return whether a report is due after `step` steps."""
        return step == self.steps or (step > 0 and self.every is not None and step % self.every == 0)

    def report(self, step: int, curves: Mapping[str, Any], *, loss: float | None = None, average: str = "raw") -> bool:
        """Report metrics after `step` steps; return True if the program should save its state and end now.

        `curves` has each metric by length, such as {"exact_match": {5: 1.0, 10: 0.4}}, or as a number without lengths.
        `average` names the evaluated weights. If `loss` is not finite, training has diverged: `failed` is reported in
        place of the metrics. Of several processes only rank 0 writes; it should broadcast the answer to the others,
        which may ask a moment earlier.
        """
        fields = make_report_fields(step, curves, loss, average)
        self._write_report(fields)
        if self._reports and "failed" in fields:
            return True
        stop_file = self._read_variable("STOP")  # created by the sweep when it is interrupted
        return (self.stop_at is not None and step >= self.stop_at) or (stop_file != "" and Path(stop_file).exists())

    def failed(self, step: int) -> None:
        """Report that training diverged at this step; then end the program."""
        self._write_report({"failed": int(step)})

    def stopped(self, step: int) -> None:
        """Report that training is complete early, at this step; then end the program."""
        self._write_report({"stopped": int(step)})

    def _read_variable(self, name: str) -> str:
        """Return the environment variable LENGTHWISE_name; "" if it is missing, and always outside of a sweep."""
        return os.environ.get(f"LENGTHWISE_{name}", "") if self._reports else ""

    def _write_report(self, fields: dict[str, Any]) -> None:
        """Append a report to the file of this attempt, or print it outside of a sweep; only rank 0 does."""
        line = json.dumps(fields)
        if next((os.environ[name] for name in RANK_VARIABLES if name in os.environ), "0") != "0":
            return
        if not self._reports:
            print(line, flush=True)
            return

        # A line is written at once, so that a killed program leaves either all of it or a line without newline, which
        # is not read. A full disk cuts it short; then the second write raises OSError.
        content = f"{line}\n".encode()
        descriptor = os.open(self._reports, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            while content:
                content = content[os.write(descriptor, content) :]
        finally:
            os.close(descriptor)


def member(config: Mapping[str, Any] = {}, seed: int = 0, *, steps: int = 0, every: int | None = None) -> Member:
    """Return the member that this program trains.

    In a sweep `seed`, `steps` and `every` are those of the sweep, and its values replace those of `config`; keys
    that it does not set keep the values given here, and a nested mapping is replaced as a whole. A key of the sweep
    that is nearly one of `config` ends the program.
    """
    return Member(config, seed, steps, every)


def _refuse_misspelt(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """End the program if a key of the sweep is none of its defaults, but nearly one: it would be ignored silently."""
    unset = [key for key in defaults if key not in given]
    for key in given:
        if key not in defaults and (nearest := difflib.get_close_matches(key, unset, 1)):
            known = ", ".join(defaults)
            print(
                f"config.{key}: not among the defaults of lengthwise.member: {known}; did you mean {nearest[0]}?",
                file=sys.stderr,
            )
            sys.exit(2)


def make_report_fields(step: int, curves: Mapping[str, Any], loss: float | None, average: str) -> dict[str, Any]:
    """Return a report as plain data; the report of a failure if the loss is not finite."""
    if loss is not None and _convert_number(loss) is None:
        return {"failed": int(step)}
    fields = {"step": int(step), "average": average, "curves": {name: _convert_curve(curves[name]) for name in curves}}
    return fields if loss is None else fields | {"loss": _convert_number(loss)}


def _convert_curve(curve: Any) -> Any:
    """Return the values of a metric by length, or its only value, as plain floats."""
    if isinstance(curve, Mapping):
        return {int(length): _convert_number(value) for length, value in curve.items()}
    return _convert_number(curve)


def _convert_number(value: Any) -> float | None:
    """Return a number of Python, NumPy or PyTorch as a float; None if it is not finite, because JSON has no NaN."""
    value = value.detach() if hasattr(value, "detach") else value  # PyTorch warns of a loss with its graph
    number = math.nan if value is None else float(value)
    return number if math.isfinite(number) else None


def __getattr__(name: str) -> Any:
    """Import `run`, `open_sweep` or `import_table` at first use; a copy of this file has no package beside it."""
    if name not in _EXPORTS:
        raise AttributeError(f"module 'lengthwise' has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_EXPORTS[name]), name)
    except ModuleNotFoundError as error:
        raise ImportError(f"lengthwise.{name} needs the whole package: pip install lengthwise ({error})") from error
