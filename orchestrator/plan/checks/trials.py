"""Code of the user's own, tried with the settings of a sweep before anything is written: a step, and an evaluation."""

from collections.abc import Iterable
from itertools import islice
from typing import Any

from orchestrator.code.own_code import import_for
from orchestrator.code.trial_guard import TimeLimitExceeded, guarded_trial
from orchestrator.consoles import make_console, say
from orchestrator.plan.configurations import Configuration
from search_spaces import SweepSpec
from search_spaces.grammar.problems.findings import Findings
from trainers.check.trial import check_member, check_task, collect_problems
from trainers.config.member import MemberConfig
from trainers.errors import place_in_user_code
from trainers.settings.fields import Settings

STRUCTURES, CONFIGURATIONS = 3, 50  # structures that are tried, among the first CONFIGURATIONS of a sweep
ROWS = 3  # rows of a batch, and samples of each length
SECONDS = 60.0  # of CPU time; what takes longer is tried as far as it goes


def try_own_code(spec: SweepSpec, configurations: Iterable[Configuration], findings: Findings) -> None:
    """Record what is wrong with tasks, models and encodings from `imports`; those of `trainers` are known to work.

    Code that takes more than SECONDS is no mistake: a note names the line at which its trial was stopped.
    """
    members: dict[str, MemberConfig] = {}
    for configuration in islice(configurations, CONFIGURATIONS) if spec.imports else ():
        member = configuration.member(spec.seeds[0])
        members.setdefault(member.structural_key, member)
        if len(members) == STRUCTURES:
            break
    problems: dict[tuple[str, str], None] = {}
    if members:
        trial = f"trying code of {', '.join(spec.imports)}"
        try:
            with guarded_trial(trial, SECONDS):
                for member in members.values():
                    problems |= dict.fromkeys(_problems(member))
        except TimeLimitExceeded as error:
            own = {str(source.root / name) for source in import_for(spec) for name in source.files}
            place = place_in_user_code(error, own)
            reason = "it is slow, or a loop in it does not end; the rest was not tried"
            say(make_console(stderr=True), f"note: {trial}: {error}{place}: {reason}")
    for key, message in problems:
        findings.add(key, message, place=spec.place(key))


def _problems(member: MemberConfig) -> list[tuple[str, str]]:
    """Dotted key and sentence of everything that is wrong."""
    task = member.task
    if found := collect_problems(lambda: check_task(task, member.evaluated_lengths)) if _is_users_own(task) else []:
        return [("task.name", f"task {task.name}: {one}") for one in found]
    if not any(map(_is_users_own, (task, member.model, *_nested_settings(member.model)))):
        return []
    names = [member.model.name, *(one.name for one in _nested_settings(member.model))]
    problems = collect_problems(lambda: check_member(_small_sections(member)))
    return [("model.name", f"model {' with '.join(names)}: {one}") for one in problems]


def _small_sections(member: MemberConfig) -> dict[str, Any]:
    """Return the sections of a member that takes one short step and is evaluated on few samples."""
    sections = member.to_dict()
    few = min(ROWS, member.training.batch_size)
    accumulation = min(member.training.accumulation, few)
    training = {"batch_size": few, "accumulation": accumulation, "compile": False}
    return {
        **sections,
        "training": {**sections["training"], **training},
        "evaluation": {**sections["evaluation"], "samples": ROWS},
    }


def _is_users_own(settings: Settings) -> bool:
    return not type(settings).__module__.startswith("trainers.")


def _nested_settings(settings: Settings) -> list[Settings]:
    """Return the settings of registered classes that are fields of other settings."""
    return [value for value in vars(settings).values() if isinstance(value, Settings)]
