"""Run sweeps with chosen configurations of another sweep: confirmations, and trainings for more steps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from orchestrator.errors import SweepExists, UserError
from orchestrator.plan.optuna_draws import count_configurations, draw_configurations
from orchestrator.plan.recorded_configurations import (
    list_recorded_values,
    refuse_changed_defaults,
    refuse_changed_results,
    refuse_missing_data,
    set_recorded_defaults,
)
from orchestrator.record.files.recorded_modules import find_program
from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.record.state.state import SweepState
from orchestrator.results.summary import ConfigurationResult
from orchestrator.session.session import Outcome
from orchestrator.sweep import run_and_resume
from orchestrator.sweep.specification import CHANGEABLE_SECTIONS, SPEC_FILE, advise_existing, refuse_fixed_sections
from orchestrator.text.consoles import say
from search_spaces import SweepSpec, dump_yaml, list_differences, parse_sweep


@dataclass(frozen=True, kw_only=True)
class DerivedSweep:
    """A sweep derived from another: its specification, the origin for its ledger, and messages for the user."""

    spec: SweepSpec
    origin: dict[str, Any]
    messages: tuple[str, ...] = ()


def run_derived(
    folder: Path,
    console: Console,
    plan: Callable[[SweepState], DerivedSweep],
    *,
    max_seconds: float | None = None,
) -> Outcome:
    """Run the sweep that `plan` derives from the sweep in `folder`, in the same storage.

    Raises what `plan` and `run_sweep` raise.
    """
    planned = plan(SweepState.load(folder))
    for line in planned.messages:
        say(console, line)
    return run_and_resume.run_sweep(planned.spec, folder.parent, console, planned.origin, max_seconds=max_seconds)


def make_listed_spec(
    state: SweepState,
    chosen: Sequence[ConfigurationResult],
    header: dict[str, Any],
    overrides: Sequence[str],
    action: str,
) -> SweepSpec:
    """Return the specification of a new sweep in the same storage that lists chosen configurations of this sweep.

    `header` has its name, description and seeds; `action` completes error messages, such as "confirmed". Raises
    UserError if the current code would train something else, SweepExists if the name is taken.
    """
    # The two sweeps are compared, so the current code must train the same as the code of this sweep did.
    allowed = f"{', '.join(CHANGEABLE_SECTIONS)} (--name sets the name)"
    refuse_fixed_sections(overrides, allowed)
    subject = f"{state.folder} cannot be {action}"
    source = f"{state.folder / SPEC_FILE} (to be {action})"
    recorded = [state.configurations[row.config_id] for row in chosen]
    refuse_changed_results(recorded, subject)
    refuse_missing_data(recorded, subject)

    # All recorded values are listed, so that defaults that have changed since have no effect. Parse twice: the first
    # pass finds the defaults to write out, the second applies --set to the result.
    search = {"sampler": "listed", "listed": [row.values for row in chosen]}
    listed = {**state.spec, **header, "space": {}, "search": search}
    with_defaults = set_recorded_defaults(parse_sweep(dump_yaml(listed), source, name=header["name"]), recorded)
    resolved = with_defaults.resolved()
    resolved["search"]["listed"] = list_recorded_values(with_defaults, recorded)
    spec = parse_sweep(dump_yaml(resolved), source, overrides, header["name"]).mark_recorded()

    # A difference from the specification without overrides means that they would change the training.
    if changes := list_differences(parse_sweep(dump_yaml(resolved), str(spec.name)), spec):
        keys = ", ".join(key for key, _, _ in changes)
        raise UserError(f"--set {keys}: cannot be changed in a sweep with the same configurations; allowed: {allowed}")
    parent = state.folder.parent if state.folder.name not in ("", "..") else state.folder.resolve().parent
    target = parent / spec.name  # as the user typed it
    if (target / LEDGER_FILE).exists():
        advice = advise_existing(SweepState.load(target), target)
        raise SweepExists(f"{target} already has a sweep; it {advice}\nor choose another --name")

    # Draw the listed configurations as `run` will: each must train as the recorded one did.
    pairs = zip(recorded, draw_configurations(spec, range(count_configurations(spec))), strict=True)
    refuse_changed_defaults(
        spec, [replace(configuration, values=draw.values) for configuration, draw in pairs], subject
    )
    return spec.set_folder(find_program(state))
