"""The specification of a sweep in its ledger, beside sweep.yaml and beside the file that it was run from."""

from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from orchestrator.errors import DamagedLedger, LedgerError, SpecChanged, SweepExists, UserError, refuse_unwritable
from orchestrator.plan.extension import Extension, find_extension
from orchestrator.record.kept.code import find_program
from orchestrator.record.ledger.folders import has_ledger
from orchestrator.record.ledger.records import LEDGER_FILE
from orchestrator.record.state.state import SweepState
from orchestrator.text.redaction import redact_spec
from orchestrator.text.wording import command
from orchestrator.tracking.address import read_uri_variable
from search_spaces import SweepFileError, SweepSpec, differences, dump_yaml, load_sweep, parse_recorded
from search_spaces.grammar.parse import overridden_key
from search_spaces.grammar.spec import PASSIVE
from search_spaces.grammar.values import make_store_absolute
from trainers.files.atomic_file import write_atomic

SPEC_FILE = "sweep.yaml"
SETTINGS = ("resources", "budget", "tracking", "notify")  # may differ in every command that runs a sweep


def read_recorded_spec(state: SweepState, version: int = -1) -> SweepSpec:
    """Return the latest specification of a sweep, or another `version` of all that it has had.

    Raises DamagedLedger where this version cannot read it.
    """
    try:
        return parse_recorded(state.specs[version], "the specification")
    except SweepFileError as error:
        raise DamagedLedger(state.folder / LEDGER_FILE, 1, f"this version cannot read\n{error}") from None


def refuse_existing(spec: SweepSpec, folder: Path) -> None:
    """Raise SpecChanged with the differences, or SweepExists, when `folder` holds a sweep already.

    A direction that only the task of `spec` knows is taken from the record.
    """
    if has_ledger(folder):
        state = SweepState.load(folder)
        if spec.direction_is_assumed:
            spec = spec.with_direction(read_recorded_spec(state).objective.direction)
        refuse_changed_file(spec, state)
        since = ", which was extended since" if is_earlier(spec, state) else " already"
        way_on = f"resume it with: {command('resume', folder)}"
        if state.deaths:
            way_on += " --retry-failed"
        elif state.ended == "complete":
            way_on = f"it is complete, so show it with: {command('report', folder)}"
        raise SweepExists(f"{folder} holds this sweep{since}; {way_on}; to run it once more, add --name NAME")


def refuse_changed(spec: SweepSpec, state: SweepState) -> None:
    """Raise SpecChanged when sweep.yaml computes something else than the sweep does."""
    _refuse_difference(read_recorded_spec(state), spec, state)


def refuse_changed_file(spec: SweepSpec, state: SweepState) -> None:
    """Raise SpecChanged when a user's file computes something else than the sweep does, or did before an extension.

    `extend` does not rewrite that file, so its differences are those from the nearest specification that the sweep has
    had; on a tie, from the last one.
    """
    if differences(read_recorded_spec(state), spec) and not is_earlier(spec, state):
        had = [read_recorded_spec(state, version) for version in range(-1, len(state.specs) - 1)]
        nearest = min(had, key=lambda before: (find_extension(before, spec) is None, len(differences(before, spec))))
        _refuse_difference(nearest, spec, state)


def _refuse_difference(recorded: SweepSpec, spec: SweepSpec, state: SweepState) -> None:
    """Raise SpecChanged if `spec` differs from `recorded`, with the command that adds the difference, if any."""
    if not (changes := differences(recorded, spec)):
        return
    added, last = find_extension(recorded, spec), read_recorded_spec(state)
    if added and differences(recorded, last):  # the rest of an earlier specification would take away what was added
        seeds = tuple(seed for seed in added.seeds if seed not in last.seeds)
        added = Extension(seeds=seeds) if seeds and not added.grids and not added.configurations else None
    way_on = f"{command('extend', state.folder)} {added.options}" if added else ""
    raise SpecChanged(state.folder, changes, way_on)


def get_section(override: str) -> str:
    """Return the first part of the key of an override: get_section("resources.workers=3") -> "resources"."""
    return overridden_key(override).split(".")[0]


def refuse_fixed(overrides: Sequence[str], allowed: str) -> None:
    """Raise UserError for overrides of the name, description or claims, which a sweep keeps from its beginning.

    Overrides of anything that changes results are refused where specifications are compared.
    """
    if fixed := [section for section in map(get_section, overrides) if section in set(PASSIVE) - set(SETTINGS)]:
        raise UserError(f"--set {', '.join(fixed)}: cannot be changed; allowed: {allowed}")


def is_earlier(spec: SweepSpec, state: SweepState) -> bool:
    """Return whether `spec` is that of the sweep before it was extended."""
    if not differences(read_recorded_spec(state), spec):
        return False
    return any(not differences(read_recorded_spec(state, version), spec) for version in range(len(state.specs) - 1))


def load_spec(state: SweepState, overrides: Sequence[str] = ()) -> SweepSpec:
    """Return the specification of sweep.yaml, which is first written again where it is missing or out of date.

    It is out of date when a driver died between the record of an extension and this file. Keys of the space have the
    order of the ledger, on which draws depend. Raises SweepFileError for what is wrong in it, and SpecChanged when it
    or `overrides` change what is computed.
    """
    path = state.folder / SPEC_FILE
    if not path.exists():
        write_spec(state.spec, state.folder)
    elif len(state.specs) > 1 and is_earlier(before := _load_file(path), state):
        rewrite_spec(copy_settings(read_recorded_spec(state), before).resolved(), state.folder)
    spec = _load_file(path, overrides)
    refuse_changed(spec, state)
    spec = spec.model_copy(update={"space": {key: spec.space[key] for key in read_recorded_spec(state).space}})
    return spec.in_folder(find_program(state) or spec.folder)


def _load_file(path: Path, overrides: Sequence[str] = ()) -> SweepSpec:
    """Return the specification in sweep.yaml; an error in it also says how to get the file back."""
    try:
        return load_sweep(path, overrides, recorded=True)
    except SweepFileError as error:
        if not any(problem.where.startswith(str(path)) for problem in error.problems):
            raise
        again = f"or delete {path}: it is then written again from the ledger"
        raise SweepFileError(error.problems, again) from None


def copy_settings(spec: SweepSpec, other: SweepSpec) -> SweepSpec:
    """Return `spec` with those values of `other` that do not change any result."""
    return spec.model_copy(update={key: getattr(other, key) for key in ("description", *SETTINGS)})


def list_differing_settings(spec: SweepSpec, other: SweepSpec) -> list[str]:
    """Return the names of those SETTINGS that differ, `notify` by its host alone."""
    first, second = redact_spec(spec.resolved()), redact_spec(other.resolved())
    return [key for key in SETTINGS if first.get(key) != second.get(key)]


def with_tracking_uri(spec: SweepSpec) -> SweepSpec:
    """Return `spec` with the address of MLflow that it names, else with that of MLflow's variable, if there is one.

    The address means the same file in whatever folder a later command is typed. Raises UserError for a wrong variable.
    """
    uri = spec.tracking.uri
    if uri is not None:
        uri = make_store_absolute(uri)
    elif spec.tracking.enabled:
        uri = read_uri_variable()
    return spec.model_copy(update={"tracking": spec.tracking.model_copy(update={"uri": uri})})


def rewrite_spec(spec: dict[str, Any], folder: Path) -> Path | None:
    """Write sweep.yaml again; one with comments or another layout of the user's is kept aside, at the path returned.

    Raises LedgerError naming the path.
    """
    path, backup = folder / SPEC_FILE, None
    if path.exists() and (text := path.read_text(encoding="utf-8")) != dump_yaml(
        load_sweep(path, recorded=True).resolved()
    ):
        names = (path.with_name(f"{SPEC_FILE}.before-{number}") for number in count(1))
        backup = next(name for name in names if not name.exists())
        with refuse_unwritable(backup, LedgerError):
            write_atomic(backup, [text.encode()])
    write_spec(spec, folder)
    return backup


def write_spec(spec: dict[str, Any], folder: Path) -> None:
    """Write sweep.yaml. Raises LedgerError naming the path."""
    path = folder / SPEC_FILE
    with refuse_unwritable(path, LedgerError):
        write_atomic(path, [dump_yaml(redact_spec(spec)).encode()])
