# Needs Python 3.9 or newer, and nothing else.
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
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if sys.version_info < (3, 9):  # noqa: UP036 - a copy may be run by any Python
    raise ImportError("lengthwise.py needs Python 3.9 or newer; this is " + sys.version.split()[0])

if TYPE_CHECKING:
    from orchestrator import import_table as import_table
    from orchestrator import open_sweep as open_sweep
    from orchestrator import run as run

RANK_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")  # of torchrun, srun, mpirun
_MAX_SHOWN = 60  # characters of a rejected value
_MAX_ABBREVIATION = 3  # characters; such names, as "lr" and "l", may differ by a letter
_EXPORTS = ("run", "open_sweep", "import_table")  # of the package `orchestrator`


class ReportError(ValueError):
    """A report that the sweep does not accept: it names the metric, what is allowed, and the nearest name."""


class Member:
    """One configuration with one seed, to be trained by this program.

    config, seed, steps: what to train; config has the defaults of the program with the values of the sweep in their
    place. every: steps between reports, None if only the last step is due. reported: the last recorded step, or 0.
    stop_at: the step at which `report` asks to stop, or None.
    """

    def __init__(self, config: Mapping[str, Any], seed: int, steps: int, every: int | None) -> None:
        self._reports = os.environ.get("LENGTHWISE_REPORTS")
        self._has_warned = False  # of checkpoints of an earlier run
        given, self._declared = self._read_json("CONFIG"), self._read_json("DECLARED")
        _refuse_misspelt(given, config)
        self.config: dict[str, Any] = {**config, **given}
        self.seed = int(self._read_variable("SEED") or seed)
        self.steps = int(self._read_variable("STEPS") or steps)
        self.every = (int(self._read_variable("EVERY") or 0) or None) if self._reports else every  # empty: at the end
        self.reported = int(self._read_variable("REPORTED") or 0)
        self.stop_at = int(self._read_variable("STOP_AT") or 0) or None
        defaults = {key: value for key, value in config.items() if key not in given}
        if self._reports and defaults:  # else these values would be known only from the code
            self._write_report({"defaults": json.loads(json.dumps(defaults, default=str, skipkeys=True))})

        # Only a version of the package that reads notices sets `wants_ignored_keys`.
        ignored, known = ", ".join(f"config.{key}" for key in given if key not in config), ", ".join(map(str, config))
        if ignored and defaults and self._declared.get("wants_ignored_keys"):
            effect = "a script that reads only these defaults ignores it; rename one of the two, or add a default"
            self._write_report({"notice": f"{ignored}: not a default of lengthwise.member ({known}); {effect}"})

    @property
    def checkpoints(self) -> Path:
        """The folder for saved states, kept for the next attempt; outside of a sweep `checkpoints/` in this folder."""
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
        place of the metrics. Of several processes only rank 0 writes; it should broadcast the result to the others,
        whose own result may differ. Raises ReportError for curves that the sweep file does not declare.
        """
        try:
            fields = make_report_fields(step, curves, loss, average)
            if self._declared and "failed" not in fields:
                check_curves(fields["curves"], average, self._declared, is_due=self.due(fields["step"]))
        except ReportError as error:
            raise error.with_traceback(None) from None  # without the frames that checked the report
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

    def _read_json(self, name: str) -> dict[str, Any]:
        """Return the content of the file that LENGTHWISE_name names; empty without the variable."""
        path = self._read_variable(name)
        return dict(json.loads(Path(path).read_text(encoding="utf-8"))) if path else {}

    def _write_report(self, fields: dict[str, Any]) -> None:
        """Append a report to the file of this attempt, or print it outside of a sweep; only rank 0 does."""
        line = json.dumps(fields)
        if next((os.environ[name] for name in RANK_VARIABLES if name in os.environ), "0") != "0":
            return
        if not self._reports:
            print(line, flush=True)
            return

        # A line is written by one call, so a killed program leaves a complete line, or one without newline, which is
        # ignored. A full disk cuts the line short, and the next call raises OSError.
        content = f"{line}\n".encode()
        descriptor = os.open(self._reports, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            while content:
                content = content[os.write(descriptor, content) :]
        finally:
            os.close(descriptor)


def member(config: Mapping[str, Any] = {}, seed: int = 0, *, steps: int = 0, every: int | None = None) -> Member:
    """Return the member that this program trains.

    In a sweep `seed`, `steps` and `every` are those of the sweep, and its values replace those of `config`; keys that
    it does not set keep the values given here, and a nested mapping is replaced as a whole. A misspelt key of `config`
    in the sweep ends the program.
    """
    return Member(config, seed, steps, every)


def _refuse_misspelt(given: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """End the program if a key of the sweep is a misspelt default, because the program would ignore it silently."""
    unset = [key for key in defaults if key not in given]
    for key in given:
        nearest = next((name for name in unset if key not in defaults and _is_slip(key, str(name))), None)
        if nearest is not None:
            known = ", ".join(map(str, defaults))
            message = f"config.{key}: not among the defaults of lengthwise.member: {known}; did you mean {nearest}?"
            print(f"{message} If the program reads both, add a default of {key}", file=sys.stderr)
            sys.exit(2)


def _is_slip(first: str, second: str) -> bool:
    """Return whether one name has a letter more than the other, or two neighbouring letters are swapped.

    Another letter or digit in place of one is no slip: beta1 and beta2, or dim_q and dim_k, are two keys.
    """
    short, long = sorted((first, second), key=len)
    i = next((i for i in range(len(long)) if short[i : i + 1] != long[i]), len(long))  # the first difference
    if len(short) == len(long):
        return len(long) > _MAX_ABBREVIATION and short[:i] + short[i : i + 2][::-1] + short[i + 2 :] == long
    return len(long) > _MAX_ABBREVIATION and not long[i].isdigit() and long[i + 1 :] == short[i:]


def make_report_fields(step: int, curves: Mapping[str, Any], loss: float | None, average: str) -> dict[str, Any]:
    """Return a report as plain data; the report of a failure if the loss is not finite. Raises ReportError."""
    if loss is not None and _convert_number(loss) is None:
        return {"failed": int(step)}
    if not isinstance(curves, Mapping):
        raise ReportError(f"expected metrics by name, such as {{'exact_match': {{5: 1.0}}}}; given: {_shorten(curves)}")
    fields = {
        "step": int(step),
        "average": average,
        "curves": {name: _convert_curve(name, curve) for name, curve in curves.items()},
    }
    return fields if loss is None else fields | {"loss": _convert_number(loss)}


def check_curves(curves: Mapping[str, Any], average: str, declared: Mapping[str, Any], *, is_due: bool) -> None:
    """Raise ReportError for an average, a metric or a length that the sweep file does not declare.

    curves: converted ones. declared: `metrics` (lengths by name), `averages`, `own_lengths` (the metrics that do not
    use evaluation.lengths), and `judged` (metric, average and lengths of the objective, or None). If the report is due,
    the objective must have a value at each of its lengths.
    """
    check_name("average", average, declared["averages"], "evaluation.averages")
    for metric, curve in curves.items():
        check_name("metric", metric, declared["metrics"], "evaluation.metrics")
        allowed = dict.fromkeys(map(str, declared["metrics"][metric]))
        has_lengths = isinstance(curve, Mapping)
        unknown = [str(length) for length in (curve if has_lengths else ["1"]) if str(length) not in allowed]
        if unknown:
            hint = "" if has_lengths else "; a number without lengths counts as length 1"
            key = f"evaluation.metrics.{metric}.lengths" if metric in declared["own_lengths"] else "evaluation.lengths"
            source = f"allowed by {key} of the sweep file: {', '.join(allowed)}"
            raise ReportError(f"{metric}: unknown length {unknown[0]}; {source}{hint}")

    # Without the values that rank it, a configuration could not be compared with the others.
    judged = declared["judged"]
    if not is_due or judged is None or average != judged["average"]:
        return
    curve = curves.get(judged["metric"], {})
    reported = list(map(str, curve)) if isinstance(curve, Mapping) else ["1"]
    missing = [str(length) for length in judged["lengths"] if str(length) not in reported]
    if missing:
        raise ReportError(
            f"{judged['metric']}: no value at objective.lengths {', '.join(missing)}; "
            f"reported: {', '.join(reported) or 'none'}; use null where undefined"
        )


def check_name(kind: str, name: Any, allowed: Collection[str], declared_by: str = "") -> None:
    """Raise ReportError if a name is not allowed; `declared_by` is the key of the sweep file that allows names."""
    if name in allowed:
        return
    close = difflib.get_close_matches(str(name), allowed, 1) or [
        other for other in allowed if name and (other.startswith(str(name)) or str(name).startswith(other))
    ]
    source = f" by {declared_by} of the sweep file" if declared_by else ""
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise ReportError(f"unknown {kind} {name!r} in a report; allowed{source}: {', '.join(allowed)}{hint}")


def _convert_curve(metric: str, curve: Any) -> Any:
    """Return the values of a metric by length, or its only value, as plain floats. Raises ReportError."""
    try:
        if isinstance(curve, Mapping):
            values = {_convert_length(length): _convert_number(value) for length, value in curve.items()}
            if len(values) < len(curve):
                raise ValueError
            return values
        return _convert_number(curve)
    # PyTorch raises RuntimeError for a tensor of several values.
    except (TypeError, ValueError, OverflowError, RuntimeError):
        expected = "a number, or one number for each whole length such as {5: 1.0, 10: 0.4}"
        raise ReportError(f"{metric}: expected {expected}; given: {_shorten(curve)}") from None


def _convert_length(length: Any) -> int:
    """Return a length, such as 5, "5" or 5.0, as an integer. Raises ValueError for 5.2."""
    whole = int(length)
    if not isinstance(length, str) and whole != length:
        raise ValueError
    return whole


def _shorten(value: Any) -> str:
    """Return a rejected value as a text of one line."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]} ..."


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
        return getattr(importlib.import_module("orchestrator"), name)
    except ModuleNotFoundError as error:
        hint = (
            "install the package from its clone with `pip install CLONE`; lengthwise.py alone is for scripts in a sweep"
        )
        raise ImportError(f"lengthwise.{name} needs the whole package; {hint} ({error})") from error
