"""Code of the user's own, tried with the settings of a sweep before anything is written: a step, and an evaluation."""

from collections.abc import Iterable
from itertools import islice

from orchestrator.code.own_code import import_for
from orchestrator.code.time_limit import TimeLimitExceeded, time_limit
from orchestrator.interface.trainer import Member
from orchestrator.plan.configurations import Configuration
from orchestrator.text.consoles import make_console, say
from orchestrator.trainer import trainer_of
from search_spaces import SweepSpec
from search_spaces.grammar.problems import Findings
from trainers.errors import locate_in_user_code

STRUCTURES, CONFIGURATIONS = 3, 50  # structures that are tried, among the first CONFIGURATIONS of a sweep
SECONDS = 60.0  # of CPU time; what takes longer is tried as far as it goes


def try_own_code(spec: SweepSpec, configurations: Iterable[Configuration], findings: Findings) -> None:
    """Record problems of code from `imports` and of metrics apart from tasks; other shipped code works.

    Code that takes more than SECONDS is no mistake: a note names the line at which its trial was stopped.
    """
    # Choose a member of each of the first structures, if there is code to try.
    members: dict[str, Member] = {}
    tried = ", ".join(spec.imports) or ("the program" if spec.program else "")
    tried = tried or ("evaluation.metrics" if spec.evaluation.get("metrics") else "")
    for configuration in islice(configurations, CONFIGURATIONS) if tried else ():
        member = configuration.member(spec.seeds[0])
        members.setdefault(member.structural_key, member)
        if len(members) == STRUCTURES:
            break

    # Try them within the time limit; a problem that several structures have is reported once.
    problems: dict[tuple[str, str], None] = {}
    if members:
        trial, trainer = f"trying code of {tried}", trainer_of(spec.sections)
        try:
            with time_limit(trial, SECONDS):
                for member in members.values():
                    problems |= dict.fromkeys(trainer.try_out(member, spec.folder))
        except TimeLimitExceeded as error:
            user_files = {str(source.root / name) for source in import_for(spec) for name in source.files}
            where = locate_in_user_code(error, user_files)
            reason = "it is slow, or a loop in it does not end; the rest was not tried"
            say(make_console(stderr=True), f"note: {trial}: {error}{where}: {reason}")
    for key, message in problems:
        findings.add(key, message, place=spec.place(key))
