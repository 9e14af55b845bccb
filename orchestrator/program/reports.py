"""The reports of a program: lines of JSON, read strictly, and merged over the attempts of a member.

    {"step": 1000, "curves": {"exact_match": {"5": 1.0, "10": 0.98}}, "loss": 0.1}
    {"step": 1000, "average": "ema", "curves": {"exact_match": {"5": 1.0}, "f1": 0.5}}
    {"failed": 1400}
    {"stopped": 9000}
    {"defaults": {"width": 64}}
    {"notice": "config.lr: not a default of lengthwise.member (learning_rate); ..."}

A number without lengths is measured at length 1; null and NaN are allowed. If a later attempt repeats a step with other
values, the values of the first attempt count. `defaults` are values of the program that the sweep does not set, and a
`notice` is shown to the user.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

import lengthwise
from orchestrator.errors import LengthwiseError
from orchestrator.interface.trainer import MISSING_REPORT_MARKER
from orchestrator.text.wording import format_lengths

_FIELDS = ("step", "average", "curves", "loss", "failed", "stopped", "defaults", "notice")


class ReportProblem(LengthwiseError):  # noqa: N818 - reads as the sentence it prints
    """A line is not a valid report; the message begins with `file:line`. `completed_steps` are the steps before it."""

    def __init__(self, message: str, completed_steps: list[ReportedStep]) -> None:
        super().__init__(message, completed_steps)
        self.message = message
        self.completed_steps = completed_steps

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True, kw_only=True)
class DeclaredReports:
    """The reports that a sweep file declares: steps, averages, lengths of each metric, and all lengths, ascending.

    own_lengths: the metrics with lengths of their own, instead of `evaluation.lengths`. passes_config: whether the
    command gives the program its config, besides `lengthwise.member()`.
    """

    steps: int
    evaluation_interval: int | None
    averages: tuple[str, ...]
    metrics: Mapping[str, tuple[int, ...]]
    lengths: tuple[int, ...]
    own_lengths: Collection[str] = ()
    judged: Mapping[str, Any] | None = None  # the metric, average and lengths by which configurations are ranked
    passes_config: bool = False

    @cached_property
    def fields(self) -> dict[str, Any]:
        """The inputs of the client's check of a report, as plain data."""
        return {
            "metrics": {name: list(lengths) for name, lengths in self.metrics.items()},
            "averages": list(self.averages),
            "own_lengths": list(self.own_lengths),
            "judged": dict(self.judged) if self.judged else None,
            # A client reports keys that its script may ignore, if this version reads notices.
            "wants_ignored_keys": not self.passes_config,
        }

    def lacks_judged(self, averages: Collection[str]) -> bool:
        """Return whether the average by which configurations are ranked is not among these."""
        return self.judged is not None and self.judged["average"] not in averages

    def describe_missing_lengths(self, reports: Iterable[Mapping[str, Mapping[int, float]]]) -> str:
        """Return a sentence on declared metrics and lengths without a value in the reports of a step; empty if none."""
        curves = list(reports)
        missing_lengths = {
            name: [length for length in lengths if not any(length in curve.get(name, {}) for curve in curves)]
            for name, lengths in self.metrics.items()
        }
        missing_lengths = {name: lengths for name, lengths in missing_lengths.items() if lengths}
        texts = ", ".join(f"{name} at {format_lengths(lengths)}" for name, lengths in missing_lengths.items())
        declared_by = "lengths" if set(missing_lengths).isdisjoint(self.own_lengths) else "metrics"
        return texts and (
            f"has no value of {texts}, which evaluation.{declared_by} declares; if the program never reports it, "
            "remove it there, or give the metric lengths of its own in evaluation.metrics"
        )

    def find_next_due_step(self, step: int) -> int:
        """Return the first step after `step` at which a report is due."""
        interval = self.evaluation_interval
        return self.steps if interval is None else min(self.steps, (step // interval + 1) * interval)

    def is_due(self, step: int) -> bool:
        """Return whether a report is due after `step` steps."""
        return step == self.find_next_due_step(step - 1)


@dataclass(frozen=True, kw_only=True)
class Report:
    """A line of a program: curves after `step` steps, the step at which training failed or stopped, or its defaults."""

    step: int
    average: str = "raw"
    curves: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    loss: float = math.nan
    failed: bool = False
    stopped: bool = False
    defaults: Mapping[str, Any] | None = None
    notice: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class ReportedStep:
    """The curves after a due step. values_AKL: float32 (averages, metrics, lengths), NaN where nothing was reported."""

    step: int
    values_AKL: NDArray[np.float32]
    loss: float


def parse_report(line: str, declared: DeclaredReports) -> Report:
    """Return the report in a line. Raises ValueError with the problem and the allowed values."""
    # A report is an evaluation, the end of the training, or the defaults of the program.
    try:
        fields = json.loads(line)
    except ValueError as error:
        raise ValueError(f"not JSON: {line[:60]!r} ({error})") from None
    if not isinstance(fields, dict):
        raise ValueError(f"expected a JSON object, given: {line[:60]!r}")
    for name in fields:
        lengthwise.check_name("key", name, _FIELDS)

    # Notices, defaults and the end of the training are reports without curves.
    ends = [name for name in ("failed", "stopped") if name in fields]
    is_alone = bool(ends) or "defaults" in fields or "notice" in fields
    if (is_alone and len(fields) > 1) or (not is_alone and not {"step", "curves"} <= fields.keys()):
        raise ValueError("expected `step` and `curves`, or `failed`, `stopped`, `defaults` or `notice` alone")
    if "notice" in fields:
        if not isinstance(fields["notice"], str):
            raise ValueError("`notice` must be a text")
        return Report(step=0, notice=fields["notice"])
    if "defaults" in fields:
        if not isinstance(fields["defaults"], dict):
            raise ValueError("`defaults` must be an object of values")
        return Report(step=0, defaults=fields["defaults"])

    # JSON true is an int to Python.
    step = fields[ends[0] if ends else "step"]
    if isinstance(step, bool) or not isinstance(step, int) or not 0 <= step <= declared.steps:
        raise ValueError(f"step {step!r}; allowed: a whole number from 0 to {declared.steps}")
    if ends:
        return Report(step=step, failed=ends == ["failed"], stopped=ends == ["stopped"])

    # What remains is an evaluation, whose curves are checked as in the client.
    average, curves = fields.get("average", "raw"), fields["curves"]
    if not isinstance(curves, dict):
        raise ValueError("`curves` must be an object of metrics")
    lengthwise.check_curves(curves, average, declared.fields, is_due=False)
    parsed = {name: _parse_curve(name, curve) for name, curve in curves.items()}
    loss = _parse_number("loss", fields.get("loss"))
    return Report(step=step, average=average, curves=parsed, loss=loss)


class MergedReports:
    """The reports of all attempts of a member, read in order.

    completed_step: the last complete step. last_step: the last reported step, due or not, or 0. repeated: the number of
    reports that a later attempt repeated with other values. failed_step, stopped_step: the step at which training
    diverged or stopped early, else None; later lines are not read. defaults: from the newest attempt with any.
    notices: sentences for the user, of the program and on its first report.
    """

    def __init__(self, declared: DeclaredReports) -> None:
        self.declared = declared
        self.completed_step = self.last_step = self.repeated = 0
        self.failed_step: int | None = None
        self.stopped_step: int | None = None
        self.defaults: Mapping[str, Any] = {}
        self.notices = list[str]()
        # Where the current attempt is read.
        self._file = ""
        self._line = 0
        self._lines: dict[tuple[int, str], int] = {}  # line numbers in it, by step and average
        self._curves: dict[tuple[int, str], NDArray[np.float32]] = {}
        self._first_curves = list[Mapping[str, Mapping[int, float]]]()  # of the first due step, as reported
        self._losses: dict[int, float] = {}

    @property
    def has_ended_early(self) -> bool:
        """Whether the training diverged or stopped early."""
        return self.failed_step is not None or self.stopped_step is not None

    def read(self, file: str, text: str) -> list[ReportedStep]:
        """Read more lines of an attempt's file and return the due steps that they complete.

        Another file name begins another attempt; a last line without its newline is not read. A step is complete once
        all averages, or a later step, were reported. Raises ReportProblem.
        """
        if file != self._file:
            self._file = file
            self._line = 0
            self._lines = {}
        completed_steps: list[ReportedStep] = []
        for line in text.split("\n")[:-1]:
            self._line += 1
            if not line.strip() or self.has_ended_early:
                continue
            try:
                completed_steps += self._add_report(parse_report(line, self.declared))
            except (ValueError, OverflowError) as error:
                raise ReportProblem(f"{file}:{self._line}: {error}", completed_steps) from None
        return completed_steps

    def finish(self) -> list[ReportedStep]:
        """Complete the last due step, which may lack averages other than the judged one; no more lines will be read."""
        step = self.last_step
        if not self._is_open(step) or self.declared.lacks_judged(self._list_reported_averages(step)):
            return []
        return [self._complete_step(step)]

    def describe_missing(self) -> str:
        """Return the missing reports as text, for "the program ended without ..."."""
        if not self.last_step:
            return "calling run.report() of run = lengthwise.member() or writing a line to ${reports}"
        why = f"; {self._describe_missing_average(self.last_step)}" if self._is_open(self.last_step) else ""
        return f"{MISSING_REPORT_MARKER}: step {self.declared.find_next_due_step(self.completed_step)} was due{why}"

    def _add_report(self, report: Report) -> list[ReportedStep]:
        """Add a report and return the due steps that it completes. Raises ValueError if earlier ones are missing."""
        # Reports without curves come first, and reports after the last step, which record nothing.
        step, average = report.step, report.average
        if report.defaults is not None:
            self.defaults = report.defaults
            return []
        if report.notice:
            self.notices.append(report.notice)
            return []
        if self.completed_step == self.declared.steps:
            return []  # after the last step nothing is recorded any more
        if report.failed:
            self.failed_step = step
            return self.finish()
        self._refuse_missing_reports(report)
        if report.stopped:
            self.stopped_step = step
            return self.finish()

        # Within an attempt steps only grow; a later attempt may repeat steps, because it resumes from a checkpoint.
        latest = max(self._lines, default=(0, ""))[0]
        if step < latest or (step, average) in self._lines:
            line = self._lines.get((step, average)) or max(self._lines.values())
            raise ValueError(f"step {step} ({average}) after step {latest} on line {line}; steps must grow")
        self._lines[step, average] = self._line

        # A later step completes an earlier one; repeated curves are only compared, because the first ones are recorded.
        completed_steps = self.finish() if step > self.last_step else []
        self.last_step = max(self.last_step, step)
        values_KL = _make_array(report.curves, self.declared)
        if (step, average) in self._curves:
            self.repeated += not np.array_equal(self._curves[step, average], values_KL, equal_nan=True)
        elif self.declared.is_due(step) and step > self.completed_step:
            # The average that ranks configurations needs every length at which they are ranked.
            lengthwise.check_curves(report.curves, average, self.declared.fields, is_due=True)
            self._curves[step, average] = values_KL
            if self.completed_step == 0:
                self._first_curves.append(report.curves)
            if math.isnan(self._losses.get(step, math.nan)):
                self._losses[step] = report.loss
            if all((step, name) in self._curves for name in self.declared.averages):
                completed_steps.append(self._complete_step(step))
        return completed_steps

    def _refuse_missing_reports(self, report: Report) -> None:
        """Raise ValueError if a due step, or its judged average, is missing before this report."""
        step, last = report.step, self.last_step
        if step > (due := self.declared.find_next_due_step(last)):
            interval = self.declared.evaluation_interval
            setting = "" if interval is None else f" (evaluation.every: {interval})"
            gap = f"step {step} was reported, but step {due} is missing{setting}"
            raise ValueError(f"{gap}; report whenever run.due(step) is true, or change evaluation.every")
        is_later = report.stopped or step > last
        if is_later and self._is_open(last) and self.declared.lacks_judged(self._list_reported_averages(last)):
            raise ValueError(self._describe_missing_average(last))
        if report.stopped and not self._curves:
            raise ValueError(f"stopped at step {step} before the first report")

    def _list_reported_averages(self, step: int) -> list[str]:
        return [name for name in self.declared.averages if (step, name) in self._curves]

    def _describe_missing_average(self, step: int) -> str:
        """Return a sentence that a step lacks the judged average, with the lines of its reports."""
        average = self.declared.judged["average"] if self.declared.judged else ""
        reported = self._list_reported_averages(step)
        lines = ", ".join(
            f"{name} on line {self._lines[step, name]}" for name in reported if (step, name) in self._lines
        )
        text = f"step {step} was reported without the average {average}, by which configurations are ranked"
        return f"{text} ({lines})" if lines else text

    def _is_open(self, step: int) -> bool:
        """Return whether some, but not all, averages of a due step were reported."""
        return step > self.completed_step and any((step, name) in self._curves for name in self.declared.averages)

    def _complete_step(self, step: int) -> ReportedStep:
        """Mark a step as complete and return its curves, with NaN for averages that were not reported."""
        # A length that is never reported would be noticed only after all training.
        if self.completed_step == 0 and (missing := self.declared.describe_missing_lengths(self._first_curves)):
            self.notices.append(f"the report of step {step} {missing}")
        self.completed_step = step
        missing_KL = _make_array({}, self.declared)
        values_AKL = np.stack([self._curves.get((step, name), missing_KL) for name in self.declared.averages])
        return ReportedStep(step=step, values_AKL=values_AKL, loss=self._losses[step])


def _parse_curve(metric: str, curve: Any) -> dict[int, float]:
    """Return the values of a metric by length; a number without lengths is measured at length 1."""
    by_length = curve if isinstance(curve, dict) else {"1": curve}
    return {int(length): _parse_number(f"{metric} at length {length}", value) for length, value in by_length.items()}


def _parse_number(name: str, value: Any) -> float:
    """Return a number as a float, NaN for null. Raises ValueError for other values; `name` begins the message."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ValueError(f"{name}: {value!r} is not a number")
    return math.nan if value is None else float(value)


def _make_array(curves: Mapping[str, Mapping[int, float]], declared: DeclaredReports) -> NDArray[np.float32]:
    """Return curves as a float32 array (metrics, lengths), with NaN for missing, infinite and too large values."""
    rows = [[curves.get(name, {}).get(length, math.nan) for length in declared.lengths] for name in declared.metrics]
    with np.errstate(over="ignore"):
        values_KL = np.array(rows, dtype=np.float32).reshape(len(declared.metrics), len(declared.lengths))
    values_KL[~np.isfinite(values_KL)] = np.nan
    return values_KL
