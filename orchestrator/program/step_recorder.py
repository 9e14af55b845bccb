"""Record the reported steps of a member with the driver."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from orchestrator.interface.work import PackWork
from orchestrator.program.program_member import ProgramMember
from orchestrator.program.reports import MergedReports, ReportedStep
from trainers.evaluation.results import Evaluation, Progress, Reporter


class StepRecorder:
    """Sends the complete steps of a member to the driver, and the progress of the member.

    end_step: the last step to record, before the last of the training if a race pauses the member at a rung.
    recorded_step: the last step that the sweep has. is_stop_requested: whether the driver's answer was to stop.
    """

    def __init__(self, work: PackWork, member: ProgramMember, reporter: Reporter, reports: MergedReports) -> None:
        self._member = member
        self._reporter = reporter
        self._reports = reports
        self.end_step = min(work.pause_at or member.steps, member.steps)
        self.recorded_step = work.recorded_step
        self.is_stop_requested = False
        self._last_reported: ReportedStep | None = None
        self._sent_defaults: Mapping[str, Any] = {}
        self._sent_notices = 0
        self._began = time.monotonic() - work.seconds

    @property
    def has_recorded_end_step(self) -> bool:
        """Whether everything up to `end_step` is recorded."""
        return self.recorded_step >= self.end_step

    def record_steps(self, steps: list[ReportedStep]) -> None:
        """Report new notices, and complete steps up to `end_step` that the sweep does not have yet."""
        for notice in self._reports.notices[self._sent_notices :]:
            self._reporter.notice(notice)
        self._sent_notices = len(self._reports.notices)
        for reported in steps:
            self._last_reported = reported
            if self.recorded_step < reported.step <= self.end_step:
                self._report_step(reported)

    def fill_due_steps(self) -> None:
        """Report the remaining due steps of a training that diverged (as NaN) or stopped early (as its last values)."""
        if not self._reports.has_ended_early:
            return
        evaluation = self._member.evaluation
        shape = (len(evaluation.averages), len(evaluation.metrics), len(self._member.lengths))
        filler = ReportedStep(step=0, values_AKL=np.full(shape, np.nan, np.float32), loss=math.nan)
        if self._reports.failed_step is None and self._last_reported is not None:
            filler = self._last_reported

        # Every seed of a configuration has the same steps, so that curves can be compared.
        while self.recorded_step < self.end_step:
            step = self._reports.declared.find_next_due_step(self.recorded_step)
            if step > self.end_step:
                return
            self._report_step(replace(filler, step=step))

    def _report_step(self, reported: ReportedStep) -> None:
        """Report an evaluation to the driver, and remember whether it asks to stop."""
        # Later reports may have been read already, so a failure or stop counts only up to this step. A last evaluation
        # in which every value is NaN counts as diverged.
        ends = (self._reports.failed_step, self._reports.stopped_step)
        failed, stopped = (step if step is not None and step <= reported.step else None for step in ends)
        is_final = reported.step == self._member.steps
        if failed is None and is_final and np.isnan(reported.values_AKL).all():
            failed = reported.step

        # One member, so each array has a first axis of 1.
        evaluation = Evaluation(
            step=reported.step,
            final=is_final,
            averages=self._member.evaluation.averages,
            metrics=tuple(self._member.evaluation.metrics),
            lengths=self._member.lengths,
            values_MAKL=reported.values_AKL[None],
            loss_M=np.array([reported.loss], dtype=np.float64),
            failed_at_M=np.array([-1 if failed is None else failed], dtype=np.int64),
            stopped_at_M=None if stopped is None else np.array([stopped], dtype=np.int64),
            seconds=time.monotonic() - self._began,
            form="program",
            compiled=False,
            repeated=self._reports.repeated,
            defaults=self._reports.defaults if self._reports.defaults != self._sent_defaults else {},
        )
        self._sent_defaults = self._reports.defaults
        self.recorded_step = reported.step
        self.is_stop_requested = bool(self._reporter.report(evaluation)) or self.is_stop_requested

    def report_progress(self, phase: str) -> None:
        """Report the completed steps and the speed, which is also the heartbeat of the pack."""
        seconds = time.monotonic() - self._began
        steps = self._reports.completed_step
        rate = steps / seconds if seconds > 0 else 0.0
        self._reporter.progress(
            Progress(
                step=steps,
                steps=self._member.steps,
                members=1,
                failed=0,
                seconds=seconds,
                member_steps_per_second=rate,
                phase=phase,
            )
        )
