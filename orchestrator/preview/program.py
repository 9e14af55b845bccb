"""Run one member of a program to its first report, for `plan --measure` and `validate --smoke`."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from orchestrator.code.own_code import import_for
from orchestrator.errors import LengthwiseError
from orchestrator.plan.configurations import Configuration
from orchestrator.program.ends import ProgramEnded
from orchestrator.record.kept.code import modules_for_worker
from orchestrator.running.driving.work import solo_work
from orchestrator.trainer import trainer_of
from orchestrator.wording import counted, duration, label
from search_spaces import SweepSpec
from trainers.evaluation.results import Evaluation, Progress


class SmokeFailed(LengthwiseError):  # noqa: N818 - reads as the sentence it prints
    """A structure of a sweep cannot be trained or evaluated; the message ends with lines of code, or of a log."""


@dataclass
class FirstReport:
    """What one member reported first, after how many seconds; stops it there."""

    evaluations: list[Evaluation] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def report(self, evaluation: Evaluation) -> bool:
        """Keep the evaluation and ask the program to stop."""
        self.evaluations.append(evaluation)
        return True

    def progress(self, progress: Progress) -> None:
        """Ignore a heartbeat."""

    def notice(self, text: str) -> None:
        """Keep a message."""
        self.notices.append(text)


def run_to_first_report(spec: SweepSpec, configuration: Configuration) -> FirstReport:
    """Run the first member of a configuration in a temporary folder, up to its first report.

    Raises SmokeFailed with the last lines of its log.
    """
    trainer, member = trainer_of(spec.sections), configuration.member(spec.seeds[0])
    report = FirstReport()
    with TemporaryDirectory(prefix="lengthwise-") as name:
        folder = Path(name)
        sources = [*import_for(spec), *trainer.sources([member], spec.folder)]
        # The files are copied, as for a sweep: the program runs from the copies.
        modules = [source.recorded() for source in sources]
        for source, fields in zip(sources, modules_for_worker(folder, modules), strict=True):
            for file in source.files if not source.installed else ():
                target = Path(fields["root"]) / file
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes((source.root / file).read_bytes())
        first = min(member.every or member.steps, member.steps)
        work = solo_work(spec.resources, folder, configuration, spec.seeds[0], modules)
        work |= {"pause_at": first, "objective": spec.objective.model_dump()}
        began = time.monotonic()
        try:
            trainer.run(work, [member], report, None)
        except ProgramEnded as error:
            lines = "\n".join(f"  {line}" for line in (error.trace or "its log is empty").splitlines())
            raise SmokeFailed(f"configuration {label(configuration.number)}: {error.message}\n{lines}") from error
        report.seconds = time.monotonic() - began
    return report


def smoke_program(spec: SweepSpec, configurations: list[Configuration]) -> str:
    """Run one member of each program of a sweep to its first report; return what it reported, as text."""
    seen: dict[str, str] = {}
    for configuration in configurations:
        member: Any = configuration.member(spec.seeds[0])
        if member.structural_key not in seen:
            report = run_to_first_report(spec, configuration)
            step = report.evaluations[0].step if report.evaluations else 0
            seen[member.structural_key] = f"step {step} after {duration(report.seconds)}"
    return f"{counted(len(seen), 'program')} run to the first report ({', '.join(seen.values())})"
