"""Sweeps that are run beside another, with chosen configurations of it: confirmations, and trainings for more steps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from orchestrator.ending.ending import Outcome
from orchestrator.errors import SweepExists, UserError
from orchestrator.plan.recorded import (
    list_recorded_values,
    refuse_changed,
    refuse_corrected,
    refuse_without_data,
    with_recorded_defaults,
)
from orchestrator.plan.search import count_configurations, draw_configurations
from orchestrator.record.kept.code import find_program
from orchestrator.record.ledger.records import LEDGER_FILE
from orchestrator.record.state.state import SweepState
from orchestrator.results.summary import Row
from orchestrator.sweep import sweep
from orchestrator.sweep.specification import SETTINGS, SPEC_FILE, refuse_fixed
from orchestrator.text.consoles import say
from orchestrator.text.wording import command
from search_spaces import SweepSpec, differences, dump_yaml, parse_sweep


@dataclass(frozen=True, kw_only=True)
class DerivedSweep:
    """A sweep to run beside another: its specification, the origin for its ledger, and lines for the user."""

    spec: SweepSpec
    origin: dict[str, Any]
    lines: tuple[str, ...] = ()


def run_derived(
    folder: Path,
    console: Console,
    plan: Callable[[SweepState], DerivedSweep],
    *,
    max_seconds: float | None = None,
) -> Outcome:
    """Derive a sweep from the one in `folder` by `plan`, and run it beside it; raises the errors of both."""
    planned = plan(SweepState.load(folder))
    for line in planned.lines:
        say(console, line)
    return sweep.run_sweep(planned.spec, folder.parent, console, planned.origin, max_seconds=max_seconds)


def make_listed_spec(
    state: SweepState, chosen: Sequence[Row], header: dict[str, Any], overrides: Sequence[str], action: str
) -> SweepSpec:
    """Return the specification of a sweep beside this one that lists chosen configurations of it.

    `header` has its name, description and seeds; errors say that the sweep cannot be `action` ("confirmed").
    Raises UserError where today's code would train something else, SweepExists when the name is taken.
    """
    # Refuse overrides of anything but SETTINGS, and configurations that today's code would train differently.
    allowed = f"{', '.join(SETTINGS)}; --name gives the new sweep its name"
    refuse_fixed(overrides, allowed)
    subject, source = f"{state.folder} cannot be {action}", f"{state.folder / SPEC_FILE} (to be {action})"
    recorded = [state.configurations[row.config_id] for row in chosen]
    refuse_corrected(recorded, subject)
    refuse_without_data(recorded, subject)

    # List the chosen configurations with all recorded values, so that new defaults change nothing.
    search = {"sampler": "listed", "listed": [row.values for row in chosen]}
    listed = {**state.spec, **header, "space": {}, "search": search}
    plain = with_recorded_defaults(parse_sweep(dump_yaml(listed), source, name=header["name"]), recorded)
    resolved = plain.resolved()
    resolved["search"]["listed"] = list_recorded_values(plain, recorded)
    spec = parse_sweep(dump_yaml(resolved), source, overrides, header["name"]).as_recorded()

    # Refuse overrides that would train something else, and a name that is taken.
    if changes := differences(parse_sweep(dump_yaml(resolved), str(spec.name)), spec):
        keys = ", ".join(key for key, _, _ in changes)
        raise UserError(
            f"--set {keys}: cannot be changed, because the new sweep trains what this one trained; allowed: {allowed}"
        )
    target = state.folder.resolve().parent / spec.name
    if (target / LEDGER_FILE).exists():
        raise SweepExists(
            f"{target} holds a sweep already; resume it with: {command('resume', target)}\n"
            "or give another --name to the new one"
        )
    again = zip(recorded, draw_configurations(spec, range(count_configurations(spec))), strict=True)
    refuse_changed(spec, [replace(configuration, values=rebuilt.values) for configuration, rebuilt in again], subject)
    return spec.in_folder(find_program(state))
