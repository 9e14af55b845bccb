"""Run the user's code for a step and an evaluation, with the settings of a sweep, before anything is written."""

from collections.abc import Iterable
from itertools import islice

from orchestrator.code.time_limit import TimeLimitExceeded, time_limit
from orchestrator.code.user_code import locate_in_spec_modules
from orchestrator.interface.trainer import Member
from orchestrator.plan.configurations import Configuration
from orchestrator.text.consoles import make_console, say
from orchestrator.trainer_choice import get_trainer
from search_spaces import SweepSpec
from search_spaces.grammar.problems import Findings

MAX_STRUCTURES = 3  # whose code is tried
MAX_SEARCHED_CONFIGURATIONS = 50  # the first configurations of a sweep, in which structures are looked for
MAX_SECONDS = 60.0  # of CPU time; slower code is only tried up to this limit


def try_user_code(spec: SweepSpec, configurations: Iterable[Configuration], findings: Findings) -> None:
    """Record problems of code from `imports` and of `evaluation.metrics`; other shipped code is not tried.

    Code that takes more than MAX_SECONDS is not a problem: a note has the line at which its trial was stopped.
    """
    # Members of one structural key run the same code, so a member of each is enough.
    members: dict[str, Member] = {}
    origin = ", ".join(spec.imports) or ("the program" if spec.program else "")
    origin = origin or ("evaluation.metrics" if spec.evaluation.get("metrics") else "")
    for configuration in islice(configurations, MAX_SEARCHED_CONFIGURATIONS) if origin else ():
        member = configuration.build_member(spec.seeds[0])
        members.setdefault(member.structural_key, member)
        if len(members) == MAX_STRUCTURES:
            break

    # The limit is for all of them together: `validate` must not seem to hang.
    problems: dict[tuple[str, str], None] = {}
    if members:
        trial, trainer = f"trying code of {origin}", get_trainer(spec.sections)
        try:
            with time_limit(trial, MAX_SECONDS):
                for member in members.values():
                    problems |= dict.fromkeys(trainer.find_trial_problems(member, spec.folder))
        except TimeLimitExceeded as error:
            where = locate_in_spec_modules(error, spec)
            reason = "slow, or an endless loop; the rest was not tried"
            say(make_console(stderr=True), f"note: {trial}: {error}{where}: {reason}")
    for key, message in problems:
        findings.add(key, message, location=spec.find_location(key))
