"""`plan` and `validate --smoke` for programs: counts alone, or one member run to its first report."""

import time
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from orchestrator.code.own_code import import_for
from orchestrator.errors import LengthwiseError
from orchestrator.plan import search
from orchestrator.plan.configurations import Configuration, trainer_warnings
from orchestrator.plan.rounds import plan_rounds
from orchestrator.preview.few_seeds import warn_of_few_seeds
from orchestrator.preview.forecast_words import describe_informed, describe_race, describe_rungs, describe_uses
from orchestrator.program.ends import ProgramEnded
from orchestrator.record.kept.code import modules_for_worker
from orchestrator.running.driving.work import solo_work
from orchestrator.running.schedulers.choice import choose_scheduler, describe_hidden_gpus, find_missing_resources
from orchestrator.running.schedulers.local import this_machine
from orchestrator.trainer import trainer_of
from orchestrator.wording import counted, duration, label, spans
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


def forecast_program(
    spec: SweepSpec, configurations: list[Configuration], workers: int | None, *, measured: bool
) -> tuple[list[tuple[str, str]], list[str]]:
    """Return the rows and the warnings of a plan; with `measured` one member is run to its first report."""
    distinct = [configuration for configuration in configurations if configuration.duplicate_of is None]
    members = [configuration.member(spec.seeds[0]) for configuration in distinct]
    scheduler, why = choose_scheduler(spec, members)
    resources = spec.resources
    at_once = workers or this_machine(resources.cpus, most=resources.workers, gpus=resources.gpus).workers
    rounds = plan_rounds(spec, len(distinct))
    growth = search.total(spec) / len(configurations)
    whole = growth * sum(part.members * part.share for part in rounds)
    starts = growth * sum(len(rounds[0].seeds) * left for _, left in rounds[0].rungs)
    starts += growth * sum(part.members for part in rounds[1:])
    # A member's time: measured, or as the sweep file says.
    minutes, how = members[0].program.member_minutes, "by program.member_minutes"
    if measured:
        first = run_to_first_report(spec, distinct[0])
        minutes = first.seconds / 60 * members[0].steps / first.evaluations[0].step
        how = f"one member was run to step {first.evaluations[0].step}, its start included"
    hours = None if minutes is None else whole * minutes / 60
    time_row = "not measured: give program.member_minutes, or --measure"
    if hours is not None:
        time_row = f"about {duration(3600 * hours / at_once)} with {counted(at_once, 'member')} at once ({how})"
    later = search.total(spec) - len(configurations)
    used = {
        "hours": (None if hours is None else hours / at_once, spec.budget.hours),
        "GPU-hours": (None if hours is None else hours * resources.gpus, spec.budget.gpu_hours),
        "member-steps": (round(whole * members[0].steps), spec.budget.member_steps),
    }
    words = members[0].program
    rows: list[tuple[str, str | None]] = [
        ("program", words.description),
        ("configurations", f"{len(distinct)}" + (f" (and {later} more, drawn when scores are known)" if later else "")),
        ("drawn by results", describe_informed(spec)),
        ("seeds", str(len(spec.seeds))),
        ("race", describe_race(spec, rounds)),
        ("rungs", describe_rungs(rounds[0])),
        ("starts", f"{starts:,.0f}: a member that survives a rung is started again" if rounds[0].rungs else None),
        ("steps", spans(sorted({member.steps for member in members}))),
        ("reports", f"every {members[0].every} steps" if members[0].every else "at the end"),
        ("scheduler", f"{scheduler}: {why}"),
        ("GPUs", describe_hidden_gpus(spec, scheduler) or None),
        ("time", time_row),
        ("uses", describe_uses(used)),
    ]
    warnings = [*trainer_warnings(spec, members), *warn_of_few_seeds(spec)]
    if 0 < resources.gpus < 1:
        warnings.append("resources.gpus: programs share a GPU, and nothing limits what torch takes of its memory")
    warnings += [f"`run` refuses this here: {problem}" for problem in find_missing_resources(spec).problems]
    return [(name, text) for name, text in rows if text is not None], warnings


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
