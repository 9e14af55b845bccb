"""Try a sweep in this process: a step and an evaluation of every structure, or a program up to its first report.

Errors appear in seconds, with lines of the user's code, and breakpoints work. Nothing is written to the storage folder.

SmokeFailed (a LengthwiseError)    a structure cannot be trained or evaluated
"""

import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from orchestrator.code.user_code import import_spec_modules
from orchestrator.errors import LengthwiseError
from orchestrator.plan.checks.sweep_file_checks import (
    build_configurations,
    build_sample_configurations,
    summarize_sample,
)
from orchestrator.plan.configurations import Configuration
from orchestrator.program.exit_causes import ProgramEnded
from orchestrator.record.files.recorded_modules import make_worker_modules, map_copies
from orchestrator.running.driving.pack_work import make_single_member_work
from orchestrator.running.pack.retries import describe_exception, make_death
from orchestrator.running.schedulers.choice import find_missing_resources
from orchestrator.text.wording import format_count, format_duration, format_label
from orchestrator.trainer_choice import get_trainer
from search_spaces import SweepSpec
from trainers.config.member import MemberConfig
from trainers.evaluation.results import Evaluation, Progress

SMOKE_SEEDS = 2  # tried seeds of each structure


class SmokeFailed(LengthwiseError):  # noqa: N818 - reads as the sentence it prints
    """A structure of a sweep cannot be trained or evaluated; the message ends with lines of code, or of a log."""


def validate_sweep(spec: SweepSpec, *, with_smoke: bool) -> list[str]:
    """Return the lines of `validate` for a valid sweep: warnings, then a summary.

    `with_smoke` also tries its structures, or its program. Raises SweepFileError with every problem, and what
    `try_structures` raises.
    """
    # Say that the program was not started: otherwise users would believe that it works.
    trial = "; the program was not started (--smoke starts it)" if spec.program else ""
    if with_smoke and spec.program:  # one member is enough, because all run the same program
        (first,) = build_configurations(spec, [(0, build_sample_configurations(spec)[0].values)])
        step, seconds = run_to_first_report(spec, first)
        trial = f"; 1 program run to the first report (step {step} after {format_duration(seconds)})"
    elif with_smoke:
        trial = f"; {format_count(try_structures(spec), 'structure')} trained for a step and evaluated"

    # A large sweep has too many configurations to build all of them.
    sample = summarize_sample(spec)
    evaluated = f"; evaluated at lengths {sample.evaluated}" if sample.evaluated else ""
    return [
        *(f"warning: {warning}" for warning in sample.warnings),
        *(
            f"note: `lengthwise run` would refuse this sweep on this machine: {problem}"
            for problem in find_missing_resources(spec).problems
        ),
        f"valid; built {format_count(sample.configuration_count, 'configuration')}{trial}{evaluated}",
    ]


def try_structures(spec: SweepSpec) -> int:
    """Train each structure for one step and evaluate it once, uncompiled; return the number of structures.

    Each is tried with up to SMOKE_SEEDS seeds. The structures come from every grid point and from the draws that
    `validate` builds. Raises SweepFileError for a sweep that cannot be built, SmokeFailed for the first structure that
    fails.
    """
    # Configurations of a structure run the same code; compilation would take longer than the step.
    structures = set[str]()
    files = frozenset(str(source.root / name) for source in import_spec_modules(spec) for name in source.files)
    for configuration in build_sample_configurations(spec):
        first = configuration.build_member(spec.seeds[0])
        if first.structural_key not in structures:
            structures.add(first.structural_key)
            sections = {**first.to_dict(), "training": {**first.to_dict()["training"], "compile": False}}
            members = [MemberConfig.from_dict({**sections, "seed": seed}) for seed in spec.seeds[:SMOKE_SEEDS]]
            _try_structure(members, format_label(configuration.number), files)
    return len(structures)


def _try_structure(members: list[MemberConfig], name: str, files: frozenset[str]) -> None:
    """Train members of a structure for a step and evaluate them; raise SmokeFailed if that is impossible."""
    import torch

    from trainers.evaluation.evaluate import evaluate
    from trainers.packs.pack import Pack
    from trainers.packs.training_state import TrainingState
    from trainers.training.step import train_next_step

    # A user looks for the mistake in the stage that the message names.
    with _convert_smoke_errors(f"{name} cannot be initialized", files):
        pack = Pack(members, torch.device("cpu"))
        state = TrainingState.make_initial(pack)
    with _convert_smoke_errors(f"{name} cannot take a training step", files):
        train_next_step(pack, state)
    if int(state.failed_at.max()) >= 0:
        raise SmokeFailed(f"configuration {name}: its loss or its weights are not finite after one step")
    with _convert_smoke_errors(f"{name} cannot be evaluated", files):
        evaluate(pack, state)


@contextmanager
def _convert_smoke_errors(problem: str, files: frozenset[str]) -> Iterator[None]:
    """Convert exceptions to SmokeFailed, with the frames in the user's `files` if there are any."""
    try:
        yield
    except LengthwiseError:
        raise
    except (Exception, SystemExit) as error:
        # Frames of lengthwise or torch would bury the user's line; if there is no such line, show all frames.
        frames = traceback.extract_tb(error.__traceback__)
        shown_frames: list[Any] = [frame for frame in frames if frame.filename in files] or list(frames)[1:]
        text = describe_exception(error, [(frame.filename, frame.lineno) for frame in shown_frames])
        lines = "".join(traceback.format_list(shown_frames)).rstrip()
        raise SmokeFailed(f"configuration {problem}: {text}\n{lines}") from error


class _FirstReport:
    """A reporter that stops its member at the first report."""

    step = 0

    def report(self, evaluation: Evaluation) -> bool:
        """Store the step of the first report, and return True, which stops the member."""
        self.step = self.step or evaluation.step
        return True

    def progress(self, progress: Progress) -> None: ...

    def notice(self, text: str) -> None: ...


def run_to_first_report(spec: SweepSpec, configuration: Configuration) -> tuple[int, float]:
    """Run the first member of a configuration up to its first report; return the step of the report and the seconds.

    The step is 0 without a report. The member runs in a temporary folder, from copies of its files as in a sweep.
    Raises SmokeFailed with the lines of its log, in which copies have the names of the user's files.
    """
    trainer, member = get_trainer(spec.sections), configuration.build_member(spec.seeds[0])
    with TemporaryDirectory(prefix="lengthwise-") as temporary:
        folder = Path(temporary)

        # A sweep runs copies of the user's files, so a file that it would not copy must be missing here, too.
        sources = [*import_spec_modules(spec), *trainer.find_sources([member], spec.folder)]
        modules = [source.to_fields() for source in sources]
        worker_modules = make_worker_modules(folder, modules)
        for source, fields in zip(sources, worker_modules, strict=True):
            for file in source.files if not source.installed else ():
                target = Path(fields["root"]) / file
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes((source.root / file).read_bytes())

        # `pause_at` ends a member at a report, as a rung of a race does.
        work = make_single_member_work(spec.resources, folder, configuration, spec.seeds[0], modules)
        first_report = min(member.evaluation_interval or member.steps, member.steps)
        work = replace(work, pause_at=first_report, objective=spec.objective.model_dump())

        # Train up to the first report; an error of the program is shown with the end of its log.
        began = time.monotonic()
        reporter = _FirstReport()
        name = format_label(configuration.number)
        files = frozenset(str(source.root / file) for source in sources for file in source.files)
        with _convert_smoke_errors(f"{name} cannot be run", files):
            try:
                trainer.train_members(work, [member], reporter, None)
            except ProgramEnded as error:
                death = make_death(error, copies=map_copies(worker_modules))
                lines = "\n".join(f"  {line}" for line in (death.trace or "its log is empty").splitlines())
                raise SmokeFailed(f"configuration {name}: {death.message}\n{lines}") from error
        return reporter.step, time.monotonic() - began
