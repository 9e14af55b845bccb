"""Run a member of a program: start it, follow its reports and its log, and stop it.

Every attempt has its own reports and log, `members/<config_id>-<seed>/attempt-2.{jsonl,log}`. A new attempt first takes
over what earlier ones have reported, and starts once all of their processes have ended.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import lengthwise
from orchestrator.code.own_code import PROGRAM
from orchestrator.interface.trainer import MEMBERS_FOLDER, Reporter
from orchestrator.program.command import PlaceholderValues, fill_words
from orchestrator.program.ends import ProgramEnded, judge_end, read_log
from orchestrator.program.member import ProgramMember
from orchestrator.program.process import Process, start_program, try_lock
from orchestrator.program.reports import DeclaredReports, MergedReports, ReportedStep, ReportProblem
from trainers.evaluation.results import Evaluation, Progress
from trainers.files.atomic_file import write_atomic

_MAX_UNCHANGED_STARTS = 20  # consecutive requested restarts without a new step
_POLL_SECONDS = 0.05


def make_search_path() -> str:
    """Return the folders in which commands are searched: PATH, then that of this interpreter."""
    return os.pathsep.join(filter(None, (os.environ.get("PATH"), str(Path(sys.executable).parent))))


def run_member(work: Mapping[str, Any], member: ProgramMember, reporter: Reporter) -> None:
    """Run a program or function until its last report, or up to the step at which the sweep pauses it.

    Raises ProgramEnded, and what a function raises.
    """
    run = _MemberRun(work, member, reporter)
    run.take_over()
    unchanged = 0
    while not (run.is_done or run.is_stopped):
        completed = run.reports.completed
        if not run.attempt():
            return
        unchanged = 0 if run.reports.completed > completed else unchanged + 1
        if unchanged > _MAX_UNCHANGED_STARTS:
            raise ProgramEnded(f"asked {unchanged} times to be started again without a new step", None, "never")


class _MemberRun:
    """The attempts of one member in this process."""

    def __init__(self, work: Mapping[str, Any], member: ProgramMember, reporter: Reporter) -> None:
        # The member and its folders.
        self.work, self.member, self.reporter = work, member, reporter
        self.sweep = Path(work["folder"]).absolute()
        self.checkpoints = self.sweep / "checkpoints" / work["pack_id"]
        (config_id, seed), *_ = work["ids"]
        self.folder = self.sweep / MEMBERS_FOLDER / f"{config_id}-{seed}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.checkpoints.mkdir(parents=True, exist_ok=True)

        # The reports that the sweep file declares.
        evaluation = member.evaluation
        self.reports = MergedReports(
            DeclaredReports(
                steps=member.steps,
                every=member.every,
                averages=evaluation.averages,
                metrics={name: evaluation.lengths_of(name) for name in evaluation.metrics},
                lengths=member.lengths,
                judged=work.get("objective"),
            )
        )

        # How far to train, and what is recorded already.
        self.until = min(work.get("pause_at") or member.steps, member.steps)
        self.recorded = int(work.get("recorded_step") or 0)
        self.last: ReportedStep | None = None
        self.stop = False  # whether the driver has asked to stop
        self._began = time.monotonic() - float(work.get("seconds") or 0.0)

    @property
    def is_done(self) -> bool:
        """Whether everything up to `until` is reported."""
        return self.recorded >= self.until

    @property
    def is_stopped(self) -> bool:
        """Whether the sweep stops, and the member is resumed later."""
        return self.stop or self._stop_file.exists()

    @property
    def should_end(self) -> bool:
        """Whether the program should end before its last step: it is stopped or paused, or training has ended."""
        has_ended = self.reports.failed is not None or self.reports.stopped is not None
        return self.is_stopped or has_ended or self.member.steps > self.until <= self.recorded

    def take_over(self) -> None:
        """Wait until earlier attempts have ended, and record their reports."""
        while (lock := try_lock(self.folder / "lock")) is None:
            self._beat("waiting")
            time.sleep(_POLL_SECONDS)
        os.close(lock.descriptor)
        for path in self._list_attempt_files("jsonl"):
            with suppress(ReportProblem):  # by which that attempt has failed
                self._read_reports(path, path.read_text(encoding="utf-8", errors="replace"))
        self._fill_due_steps()

    def attempt(self) -> bool:
        """Start the member once; return whether it asked to be started again. Raises ProgramEnded."""
        number = 1 + max((int(path.stem.rpartition("-")[2]) for path in self._list_attempt_files("*")), default=0)
        reports, log = (self.folder / f"attempt-{number}.{ending}" for ending in ("jsonl", "log"))
        reports.touch()
        code, reason = 0, None
        try:
            if self.member.program.function is not None:
                self._call(reports)
            else:
                code, reason = self._start(reports, log)
        except ReportProblem as problem:
            # Its checkpoints may be those of steps that were never recorded: a later attempt starts anew.
            with suppress(FileNotFoundError):  # removed by the program
                self.checkpoints.rename(self.checkpoints.with_name(f"{self.checkpoints.name}.attempt-{number}"))
            if log.exists():
                raise ProgramEnded(str(problem), read_log(log), "never") from None
            raise  # through the function, whose line is named
        if code == 0 and reason is None:  # otherwise the next attempt repeats a step that lacks averages
            self._record_steps(self.reports.finish())
        self._fill_due_steps()
        if self.is_done or self.is_stopped:
            return False
        return judge_end(code, reason, log, self.reports, self.start_step)

    # A command --------------------------------------------------------------------------------------------------------

    def _start(self, reports: Path, log: Path) -> tuple[int, str | None]:
        """Run the command; return its exit code, and why it was stopped if it was not by the sweep."""
        while (lock := try_lock(self.folder / "lock")) is None:
            self._beat("waiting")
            time.sleep(_POLL_SECONDS)
        self.start_step = self.reports.completed
        config = self.folder / "config.json"
        config.write_text(json.dumps(self.member.config, indent=1), encoding="utf-8")

        # Fill in the words of the command.
        root, copy = self._find_code_folders()
        values = PlaceholderValues(
            config=self.member.config,
            config_file=config,
            seed=self.member.seed,
            steps=self.member.steps,
            checkpoints=self.checkpoints,
            folder=self.folder,
            reports=reports,
        )
        words = [_replace_by_copy(word, copy) for word in fill_words(self.member.program.words, values)]
        if words[0] != (first := self.member.program.words[0]) and os.access(root / first, os.X_OK):
            Path(words[0]).chmod(0o755)  # a copy has lost it
        words[0] = shutil.which(words[0], path=make_search_path()) or words[0]

        # Start it, and follow its reports until it ends.
        environment = self._make_environment(reports, config, copy)
        process = start_program(
            words,
            env=environment,
            cwd=root if root.is_dir() else copy,
            log=log,
            lock=lock,
            grace=self.work["grace_seconds"],
        )
        try:
            return self._follow(process, reports, log)
        except BaseException:
            process.end()
            raise

    def _follow(self, process: Process, reports: Path, log: Path) -> tuple[int, str | None]:
        """Read reports until the program has ended; ask it to stop when the sweep or a limit says so."""
        offset = size = 0
        began = heard = time.monotonic()
        hours, silence, grace = self.work["member_hours"], self.work["watchdog_seconds"], self.work["grace_seconds"]
        reason: str | None = None
        asked_at: float | None = None  # when the program should have begun to end by itself
        while True:
            code = process.poll()
            # Whole lines alone: a line without its end may still be written.
            with reports.open("rb") as file:
                file.seek(offset)
                content = file.read()
            if content := content[: content.rfind(b"\n") + 1]:
                offset += len(content)
                self._read_reports(reports, content.decode(errors="replace"))
                heard = time.monotonic()
            if log.exists() and (log_size := log.stat().st_size) != size:
                size, heard = log_size, time.monotonic()
            if code is not None:
                return code, reason
            self._beat("train")
            # A stop is first a request in `report`, then SIGTERM, then SIGKILL.
            now = time.monotonic()
            if self.should_end and asked_at is None:
                asked_at = now
            late = asked_at is not None and now - asked_at > grace
            if reason is None and now - heard > silence:
                reason = f"no report and no log output for {silence:g} s"
            elif reason is None and hours is not None and now - began > 3600 * hours:
                reason = f"stopped after resources.member_hours ({hours:g})"
            if (reason is not None or late) and asked_at != math.inf:
                process.terminate()
                asked_at = math.inf
            self._wait(process)

    def _wait(self, process: Process) -> None:
        deadline = time.monotonic() + _POLL_SECONDS
        while process.keeper.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)

    def _find_code_folders(self) -> tuple[Path, Path]:
        """Return the user's folder, and the folder with the copies of the files that the sweep began with."""
        fields = next(fields for fields in self.work["code"] if fields["module"] == PROGRAM)
        return Path(fields["origin"]), Path(fields["root"])

    def _make_environment(self, reports: Path, config: Path, copy: Path) -> dict[str, str]:
        """Return the environment of the program: that of this process, and where its files are."""
        # Variables of lengthwise: files, and the requested steps.
        client = self.sweep / "code" / "client"
        if not (client / "lengthwise.py").exists():
            client.mkdir(parents=True, exist_ok=True)
            write_atomic(client / "lengthwise.py", [Path(lengthwise.__file__).read_bytes()])
        paths = [str(copy), os.environ.get("PYTHONPATH", ""), str(client)]
        variables = {
            "REPORTS": reports,
            "CONFIG": config,
            "SEED": self.member.seed,
            "CHECKPOINTS": self.checkpoints,
            "FOLDER": self.folder,
            "STEPS": self.member.steps,
            "EVERY": self.member.every or "",
            "REPORTED": self.reports.completed,
            "STOP_AT": self.until if self.until < self.member.steps else "",
            "STOP": self._stop_file,
        }

        # The environment of this process, without the run and the secrets of MLflow.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LENGTHWISE_")}
        for name in ("MLFLOW_RUN_ID", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN"):
            environment.pop(name, None)
        environment |= {f"LENGTHWISE_{name}": str(value) for name, value in variables.items()}
        environment |= {"PATH": make_search_path(), "PYTHONPATH": os.pathsep.join(filter(None, paths))}

        # Modules of the copy, threads and GPUs.
        if "-m" in self.member.program.words:
            environment["PYTHONSAFEPATH"] = "1"  # the module is that of the copy, not of the working folder
        environment.setdefault("PYTHONUNBUFFERED", "1")  # a buffered log would look silent
        environment.setdefault("OMP_NUM_THREADS", str(self.work["cpus"]))
        if not self.work["gpus"]:
            environment["CUDA_VISIBLE_DEVICES"] = ""  # as Ray does
        if 0 < self.work["gpus"] < 1:  # JAX takes three quarters of a GPU otherwise
            environment.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{0.9 * self.work['gpus']:.2f}")
        return environment

    @property
    def _stop_file(self) -> Path:
        return self.sweep / self.work["stop_file"]

    # A function -------------------------------------------------------------------------------------------------------

    def _call(self, reports: Path) -> None:
        """Call the function of the user's own in this process."""
        self.start_step = self.reports.completed
        module, _, name = str(self.member.program.function).rpartition(".")
        function: Callable[..., Any] = getattr(importlib.import_module(module), name)

        def report(step: int, curves: Mapping[str, Any], *, loss: float | None = None, average: str = "raw") -> bool:
            self._write(reports, json.dumps(lengthwise.report_fields(step, curves, loss, average)))
            return self.should_end

        config = json.loads(json.dumps(self.member.config))  # which the function may change
        function(config, self.member.seed, report, self.checkpoints)

    def _write(self, reports: Path, line: str) -> None:
        with reports.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
        self._read_reports(reports, f"{line}\n")

    # Reports ----------------------------------------------------------------------------------------------------------

    def _list_attempt_files(self, ending: str) -> list[Path]:
        """Return the files of all attempts with this ending, in the order of the attempts."""
        paths = self.folder.glob(f"attempt-*.{ending}")
        return sorted(paths, key=lambda path: int(path.stem.rpartition("-")[2]))

    def _read_reports(self, path: Path, text: str) -> None:
        """Read more of an attempt's reports, and record the steps that they complete. Raises ReportProblem."""
        try:
            self._record_steps(self.reports.read(str(path), text))
        except ReportProblem as problem:
            self._record_steps(problem.complete)
            raise

    def _record_steps(self, steps: list[ReportedStep]) -> None:
        """Report complete steps up to `until` that the sweep does not have yet."""
        for reported in steps:
            self.last = reported
            if self.recorded < reported.step <= self.until:
                self._report_step(reported)

    def _fill_due_steps(self) -> None:
        """Report the due steps that remain after training has diverged, or has stopped early with its last values."""
        ended = self.reports.failed is not None or self.reports.stopped is not None
        for step in self._list_due_steps() if ended else ():
            if step > self.recorded and step <= self.until:
                if self.reports.failed is None and self.last is not None:
                    self._report_step(replace(self.last, step=step))
                    continue
                evaluation = self.member.evaluation
                shape = (len(evaluation.averages), len(evaluation.metrics), len(self.member.lengths))
                self._report_step(ReportedStep(step=step, values_AKL=np.full(shape, np.nan, np.float32), loss=math.nan))

    def _list_due_steps(self) -> Iterator[int]:
        step = self.recorded
        while step < self.member.steps:
            step = self.reports.declared.next_due(step)
            yield step

    def _report_step(self, reported: ReportedStep) -> None:
        # The reports may have been read beyond this step.
        ends = (self.reports.failed, self.reports.stopped)
        failed, stopped = (step if step is not None and step <= reported.step else None for step in ends)
        final = reported.step == self.member.steps
        if failed is None and final and np.isnan(reported.values_AKL).all():
            failed = reported.step

        # One member, so each array has a first axis of 1.
        evaluation = Evaluation(
            step=reported.step,
            final=final,
            averages=self.member.evaluation.averages,
            metrics=tuple(self.member.evaluation.metrics),
            lengths=self.member.lengths,
            values_MAKL=reported.values_AKL[None],
            loss_M=np.array([reported.loss], dtype=np.float64),
            failed_at_M=np.array([-1 if failed is None else failed], dtype=np.int64),
            stopped_at_M=None if stopped is None else np.array([stopped], dtype=np.int64),
            seconds=time.monotonic() - self._began,
            form="program",
            compiled=False,
            repeated=self.reports.repeated,
        )
        self.recorded = reported.step
        self.stop = bool(self.reporter.report(evaluation)) or self.stop

    def _beat(self, phase: str) -> None:
        seconds, steps = time.monotonic() - self._began, self.reports.completed
        rate = steps / seconds if seconds > 0 else 0.0
        self.reporter.progress(
            Progress(
                step=steps,
                steps=self.member.steps,
                members=1,
                failed=0,
                seconds=seconds,
                member_steps_per_second=rate,
                phase=phase,
            )
        )


def _replace_by_copy(word: str, copy: Path) -> str:
    """Return a word that names a copied file, perhaps after `=`, with the path of the copy."""
    before, equals, path = word.rpartition("=")
    name = path.removeprefix("./")
    return f"{before}{equals}{copy / name}" if name and (copy / name).is_file() else word
