"""Run a member of a program: start it, follow its reports and its log, and stop it.

Every attempt writes reports and a log of its own, `members/<config_id>-<seed>/attempt-2.{jsonl,log}`. A new attempt
first reads the reports of earlier attempts, and starts once all of their processes have ended.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import lengthwise
from orchestrator.code.user_code import PROGRAM
from orchestrator.interface.trainer import MEMBERS_FOLDER
from orchestrator.interface.work import PackWork, get_checkpoint_folder
from orchestrator.program.command import PlaceholderValues, fill_words, passes_config
from orchestrator.program.exit_causes import (
    RESTART_CODE,
    EndedAttempt,
    ProgramEnded,
    ReachedLimit,
    explain_end,
    find_error_line,
    find_report_error,
    read_log,
)
from orchestrator.program.member_folder import LOCK_FILE, read_attempt_number
from orchestrator.program.needed_files import describe_uncopied, is_file
from orchestrator.program.process import MemberLock, Process, start_program, try_lock
from orchestrator.program.program_member import ProgramMember
from orchestrator.program.reports import DeclaredReports, MergedReports, ReportProblem
from orchestrator.program.step_recorder import StepRecorder
from trainers.evaluation.results import Reporter
from trainers.files.atomic_file import write_atomic

_MAX_IDLE_RESTARTS = 20  # consecutive restarts that the program requests without reporting a new step
_POLL_SECONDS = 0.05


def make_search_path() -> str:
    """Return the search path of commands: PATH, then the folder of this interpreter."""
    return os.pathsep.join(filter(None, (os.environ.get("PATH"), str(Path(sys.executable).parent))))


def run_member(work: PackWork, member: ProgramMember, reporter: Reporter) -> None:
    """Run a program or function until its last report, or up to the step at which the sweep pauses it.

    Raises ProgramEnded, and any exception of a function.
    """
    run = _MemberRun(work, member, reporter)
    run.read_earlier_attempts()

    # Programs on preemptible machines may ask to be restarted; a program without progress would restart forever.
    idle_restarts = 0
    while not (run.recorder.has_recorded_end_step or run.is_interrupted):
        completed = run.reports.completed_step
        if not run.run_attempt():
            return
        idle_restarts = 0 if run.reports.completed_step > completed else idle_restarts + 1
        if idle_restarts > _MAX_IDLE_RESTARTS:
            raise ProgramEnded(f"requested {idle_restarts} restarts without a new step", None, "never")


class _MemberRun:
    """The attempts of one member in this process."""

    def __init__(self, work: PackWork, member: ProgramMember, reporter: Reporter) -> None:
        # A pack of programs has a single member.
        self.work = work
        self.member = member
        self.sweep = Path(work.folder).absolute()
        self.checkpoints = get_checkpoint_folder(self.sweep, work.pack_id)
        (config_id, seed), *_ = work.member_ids
        self.folder = self.sweep / MEMBERS_FOLDER / f"{config_id}-{seed}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.checkpoints.mkdir(parents=True, exist_ok=True)

        # An earlier attempt may have reported some steps already; its values count.
        evaluation = member.evaluation
        self.reports = MergedReports(
            DeclaredReports(
                steps=member.steps,
                evaluation_interval=member.evaluation_interval,
                averages=evaluation.averages,
                metrics={name: evaluation.get_lengths(name) for name in evaluation.metrics},
                lengths=member.lengths,
                own_lengths=evaluation.list_metrics_with_lengths(),
                judged=work.objective,
                passes_config=passes_config(member.program.words),
            )
        )

        self.recorder = StepRecorder(work, member, reporter, self.reports)
        self.start_step = 0  # the last complete step when the current attempt began

    @property
    def is_interrupted(self) -> bool:
        """Whether the sweep is interrupted; the member is resumed later."""
        return self.recorder.is_stop_requested or self._stop_file.exists()

    @property
    def should_program_end(self) -> bool:
        """Whether the program should end before its last step: interrupted, paused, diverged, or stopped early."""
        is_paused = self.recorder.has_recorded_end_step and self.recorder.end_step < self.member.steps
        return self.is_interrupted or self.reports.has_ended_early or is_paused

    def read_earlier_attempts(self) -> None:
        """Wait until earlier attempts have ended, and record their reports."""
        self._wait_for_lock().release()
        for path in self._list_attempt_files("jsonl"):
            with suppress(ReportProblem):  # reported when that attempt failed
                self._read_reports(path, path.read_text(encoding="utf-8", errors="replace"))
        self.recorder.fill_due_steps()

    def run_attempt(self) -> bool:
        """Start the member once; return whether it asked to be started again. Raises ProgramEnded."""
        # Files of earlier attempts are kept, because they are the record of a failure.
        number = 1 + max(map(read_attempt_number, self._list_attempt_files("*")), default=0)
        reports, log = (self.folder / f"attempt-{number}.{ending}" for ending in ("jsonl", "log"))
        reports.touch()
        code = 0
        limit = None
        try:
            if self.member.program.function is not None:
                self._call_function(reports)
            else:
                code, limit = self._run_command(reports, log)
                failed = limit is None and code > 0 and code != RESTART_CODE
                if failed and (error := find_report_error(log)):
                    raise ReportProblem(error, [])
        except ReportProblem as problem:
            # Its checkpoints may be of steps that were never recorded, so a later attempt starts from the beginning.
            with suppress(FileNotFoundError):  # removed by the program
                self.checkpoints.rename(self.checkpoints.with_name(f"{self.checkpoints.name}.attempt-{number}"))
            if log.exists():
                raise ProgramEnded(str(problem), read_log(log), "never") from None
            raise  # a function has no log; its traceback names the line

        # A last step that lacks averages is completed only after a clean exit; after a crash it is repeated.
        if code == 0 and limit is None:
            self.recorder.record_steps(self.reports.finish())
        self.recorder.fill_due_steps()
        if self.recorder.has_recorded_end_step or self.is_interrupted:
            return False
        if limit is None and code == RESTART_CODE:
            return True

        # A crash may be due to a file of the user's folder that was not copied; then say how to have it copied.
        end = explain_end(EndedAttempt(code, limit, log, self.start_step), self.reports)
        is_crash = limit is None and code > 0
        remedy = describe_uncopied(find_error_line(end.trace), *self._find_code_folders()) if is_crash else ""
        raise ProgramEnded(f"{end.message}{remedy}", end.trace, end.retry)

    # A command --------------------------------------------------------------------------------------------------------

    def _wait_for_lock(self) -> MemberLock:
        """Return the lock of the member, once all processes of earlier attempts have ended."""
        while (lock := try_lock(self.folder / LOCK_FILE)) is None:
            self.recorder.report_progress("waiting")
            time.sleep(_POLL_SECONDS)
        return lock

    def _run_command(self, reports: Path, log: Path) -> tuple[int, ReachedLimit | None]:
        """Run the command; return its exit code, and the limit that stopped it, else None."""
        # The client in the program reads its configuration, and what it must report, from files.
        self.start_step = self.reports.completed_step
        config, declared = (reports.with_suffix(f".{name}.json") for name in ("config", "declared"))
        config.write_text(json.dumps(self.member.config, indent=1), encoding="utf-8")
        declared.write_text(json.dumps(self.reports.declared.fields), encoding="utf-8")

        # Words that name copied files become paths of the copies, so that later edits do not change a running sweep.
        folder, copy_folder = self._find_code_folders()
        values = PlaceholderValues(
            config=self.member.config,
            config_file=config,
            seed=self.member.seed,
            steps=self.member.steps,
            checkpoints=self.checkpoints,
            folder=self.folder,
            reports=reports,
        )
        words = [_replace_by_copy(word, folder, copy_folder) for word in fill_words(self.member.program.words, values)]
        if words[0] != (first := self.member.program.words[0]) and os.access(folder / first, os.X_OK):
            Path(words[0]).chmod(0o755)  # copies are not executable
        words[0] = shutil.which(words[0], path=make_search_path()) or words[0]

        # The lock is taken last, because an error that left it locked would make the next attempt wait forever. A later
        # error, such as an invalid report, must not leave the program running.
        environment = self._make_environment(reports, config, declared, copy_folder)
        lock = self._wait_for_lock()
        process = start_program(
            words,
            env=environment,
            cwd=folder if folder.is_dir() else copy_folder,
            log=log,
            lock=lock,
            grace=self.work.grace_seconds,
        )
        try:
            return self._follow(process, reports, log)
        except BaseException:
            process.end()
            raise

    def _follow(self, process: Process, reports: Path, log: Path) -> tuple[int, ReachedLimit | None]:
        """Read reports until the program has ended; return its exit code, and the limit that stopped it, else None."""
        offset = size = 0
        began = last_output = time.monotonic()
        hours = self.work.member_hours
        silence = self.work.heartbeat_timeout
        grace = self.work.grace_seconds
        limit: ReachedLimit | None = None
        end_requested_at: float | None = None
        is_terminated = False
        while True:
            # Poll before reading, so that the last lines are read.
            code = process.poll()
            if lines := _read_whole_lines(reports, offset):
                offset += len(lines)
                self._read_reports(reports, lines.decode(errors="replace"))
                last_output = time.monotonic()
            if log.exists() and (log_size := log.stat().st_size) != size:
                size = log_size
                last_output = time.monotonic()
            if code is not None:
                return code, limit
            self.recorder.report_progress("train")

            # `report` asks the program to end; SIGTERM follows after the grace time, and SIGKILL by the supervisor.
            now = time.monotonic()
            if self.should_program_end and end_requested_at is None:
                end_requested_at = now
            is_overdue = end_requested_at is not None and now - end_requested_at > grace
            if limit is None and now - last_output > silence:
                limit = ReachedLimit(f"no report and no log output for {silence:g} s", is_member_hours=False)
            elif limit is None and hours is not None and now - began > 3600 * hours:
                limit = ReachedLimit(f"stopped after resources.member_hours ({hours:g})", is_member_hours=True)
            if (limit is not None or is_overdue) and not is_terminated:
                process.terminate()
                is_terminated = True
            self._wait_for_end(process)

    def _wait_for_end(self, process: Process) -> None:
        """Wait until the next poll, or until the program has ended."""
        deadline = time.monotonic() + _POLL_SECONDS
        while process.supervisor.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)

    def _find_code_folders(self) -> tuple[Path, Path]:
        """Return the user's folder, and the folder of the copies that the sweep made of its files at the start."""
        fields = next(fields for fields in self.work.modules if fields["module"] == PROGRAM)
        return Path(fields["origin"]), Path(fields["root"])

    def _make_environment(self, reports: Path, config: Path, declared: Path, copy_folder: Path) -> dict[str, str]:
        """Return the environment of the program: this process's environment, and variables that the client reads."""
        # The client comes last in PYTHONPATH: an installed package or a copy beside the script is preferred.
        client = self.sweep / "code" / "client"
        if not (client / "lengthwise.py").exists():
            client.mkdir(parents=True, exist_ok=True)
            write_atomic(client / "lengthwise.py", [Path(lengthwise.__file__).read_bytes()])
        paths = [str(copy_folder), os.environ.get("PYTHONPATH", ""), str(client)]

        # The variables that the client reads, without their prefix.
        variables = {
            "REPORTS": reports,
            "CONFIG": config,
            "DECLARED": declared,
            "SEED": self.member.seed,
            "CHECKPOINTS": self.checkpoints,
            "FOLDER": self.folder,
            "STEPS": self.member.steps,
            "EVERY": self.member.evaluation_interval or "",
            "REPORTED": self.reports.completed_step,
            "STOP_AT": self.recorder.end_step if self.recorder.end_step < self.member.steps else "",
            "STOP": self._stop_file,
        }

        # A program that logs to MLflow itself must neither write to the sweep's run nor get the password of its server.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("LENGTHWISE_")}
        for name in ("MLFLOW_RUN_ID", "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN"):
            environment.pop(name, None)
        environment |= {f"LENGTHWISE_{name}": str(value) for name, value in variables.items()}
        environment |= {"PATH": make_search_path(), "PYTHONPATH": os.pathsep.join(filter(None, paths))}

        # A variable that the user has set is kept, except that a pack without GPUs must see none.
        if "-m" in self.member.program.words:
            environment["PYTHONSAFEPATH"] = "1"  # import the module from the copy, not from the working folder
        environment.setdefault("PYTHONUNBUFFERED", "1")  # the watchdog takes a buffered log for silence
        environment.setdefault("OMP_NUM_THREADS", str(self.work.cpus))
        if not self.work.gpus:
            environment["CUDA_VISIBLE_DEVICES"] = ""  # as Ray does
        if 0 < self.work.gpus < 1:  # JAX takes three quarters of a GPU otherwise
            environment.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{0.9 * self.work.gpus:.2f}")
        return environment

    @property
    def _stop_file(self) -> Path:
        return self.sweep / self.work.stop_file

    # A function -------------------------------------------------------------------------------------------------------

    def _call_function(self, reports: Path) -> None:
        """Call the user's function in this process."""
        self.start_step = self.reports.completed_step
        module, _, name = str(self.member.program.function).rpartition(".")
        function: Callable[..., Any] = getattr(importlib.import_module(module), name)

        def report(step: int, curves: Mapping[str, Any], *, loss: float | None = None, average: str = "raw") -> bool:
            self._append_report(reports, json.dumps(lengthwise.make_report_fields(step, curves, loss, average)))
            return self.should_program_end

        config = json.loads(json.dumps(self.member.config))  # a copy, which the function may change
        function(config, self.member.seed, report, self.checkpoints)

    def _append_report(self, reports: Path, line: str) -> None:
        """Write a report of a function to the file of this attempt, and read it like a report of a command."""
        with reports.open("a", encoding="utf-8") as file:
            file.write(f"{line}\n")
        self._read_reports(reports, f"{line}\n")

    # Reports ----------------------------------------------------------------------------------------------------------

    def _list_attempt_files(self, ending: str) -> list[Path]:
        """Return the files of all attempts with this ending, in the order of the attempts."""
        paths = self.folder.glob(f"attempt-*.{ending}")
        return sorted(filter(read_attempt_number, paths), key=read_attempt_number)

    def _read_reports(self, path: Path, text: str) -> None:
        """Read more of an attempt's reports, and record the steps that they complete. Raises ReportProblem."""
        try:
            self.recorder.record_steps(self.reports.read(str(path), text))
        except ReportProblem as problem:
            self.recorder.record_steps(problem.completed_steps)
            raise


def _read_whole_lines(path: Path, offset: int) -> bytes:
    """Return the complete lines of a file after a byte offset; a last line that is still being written is left out."""
    with path.open("rb") as file:
        file.seek(offset)
        content = file.read()
    return content[: content.rfind(b"\n") + 1]


def _replace_by_copy(word: str, folder: Path, copy_folder: Path) -> str:
    """Return the word with the path of the copy if it names a copied file of `folder`, perhaps after `=`."""
    option, equals, path = word.rpartition("=")
    name = os.path.relpath(folder / path, folder) if path else ""
    is_copied = name and not name.startswith("..") and is_file(copy_folder / name)
    return f"{option}{equals}{copy_folder / name}" if is_copied else word
