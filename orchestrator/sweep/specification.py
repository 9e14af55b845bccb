"""Compare the recorded specification of a sweep with sweep.yaml and the user's sweep file; read and write these."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

from orchestrator.code.user_code import PROGRAM, CodeSource, UserCodeError, find_module, read_files
from orchestrator.errors import DamagedLedger, LedgerError, SpecChanged, SweepExists, UserError, convert_write_errors
from orchestrator.plan.extension import Extension, find_extension
from orchestrator.record.files.recorded_modules import find_program
from orchestrator.record.ledger.folders import LEDGER_FILE, has_ledger
from orchestrator.record.state.state import SweepState
from orchestrator.results.sweep_status import describe_end_status
from orchestrator.text.redaction import redact_spec
from orchestrator.text.wording import format_command, join_first_few
from orchestrator.tracking.address import read_uri_variable
from search_spaces import SweepFileError, SweepSpec, dump_yaml, list_differences, load_sweep, parse_recorded
from search_spaces.grammar.parse import read_override_key
from search_spaces.grammar.spec import PASSIVE
from search_spaces.grammar.values import make_store_absolute
from trainers.files.atomic_file import write_atomic

SPEC_FILE = "sweep.yaml"
CHANGEABLE_SECTIONS = ("resources", "budget", "tracking", "notify")  # sections that each command may change


def read_recorded_spec(state: SweepState, version: int = -1) -> SweepSpec:
    """Return the latest specification of a sweep, or an earlier `version` by index.

    Raises DamagedLedger if this version of lengthwise cannot read it.
    """
    try:
        return parse_recorded(state.specs[version], "the specification")
    except SweepFileError as error:
        raise DamagedLedger(state.folder / LEDGER_FILE, 1, f"this version cannot read\n{error}") from None


def refuse_existing(spec: SweepSpec, folder: Path) -> None:
    """Raise SpecChanged with the differences, or SweepExists, if `folder` already has a sweep.

    A direction that `spec` does not set is taken from the record.
    """
    if has_ledger(folder):
        state = SweepState.load(folder)
        if spec.direction_is_assumed:
            spec = spec.with_direction(read_recorded_spec(state).objective.direction)
        refuse_changed_user_file(spec, state)
        if edited_code := [*_list_edited_modules(spec, state), *_list_edited_files(state)]:
            changed = f"{join_first_few(edited_code)} changed after {folder} was trained"
            advice = advise_existing(state, folder, has_changed_code=True)
            raise SweepExists(f"{changed}; to train the changed code, add --name NAME; the old sweep {advice}")
        history = ", which was extended later" if equals_earlier_spec(spec, state) else " already"
        advice = advise_existing(state, folder)
        raise SweepExists(f"{folder} has this sweep{history}; it {advice}; to run it again, add --name NAME")


def advise_existing(state: SweepState, folder: Path, *, has_changed_code: bool = False) -> str:
    """Return how a sweep can be continued, or shown if it has finished, as the end of a sentence."""
    if state.end_status == "complete" and not state.failed_packs:
        return f"is {describe_end_status(state)}; show it with: {format_command('report', folder)}"
    retry = " --retry-failed" if state.failed_packs else ""
    accept = " --accept-code-change (results of the old code stay)" if has_changed_code else ""
    return f"can be resumed with: {format_command('resume', folder)}{retry}{accept}"


def _list_edited_modules(spec: SweepSpec, state: SweepState) -> list[str]:
    """Return the modules of a sweep whose current files differ from the recorded ones."""
    recorded = {fields["module"]: fields["sha256"] for fields in state.modules}
    folders = [Path.cwd()] if spec.folder is None else [spec.folder, Path.cwd()]
    edited_modules = []
    for module in spec.imports:
        with suppress(UserCodeError):  # an import reports it
            if find_module(module, folders).sha256 != recorded.get(module):
                edited_modules.append(module)
    return edited_modules


def _list_edited_files(state: SweepState) -> list[str]:
    """Return the files of a program that were edited since the sweep was begun."""
    recorded = next((CodeSource.from_recorded(fields) for fields in state.modules if fields["module"] == PROGRAM), None)
    if recorded is None:
        return []
    edited_files = []
    for name, digest in sorted(recorded.files.items()):
        with suppress(UserCodeError):  # a missing file was not edited
            if read_files(recorded.root, [name]).files[name] != digest:
                edited_files.append(name)
    return edited_files


def refuse_changed_sweep_yaml(spec: SweepSpec, state: SweepState) -> None:
    """Raise SpecChanged if sweep.yaml would give other results than the recorded specification."""
    _refuse_difference(read_recorded_spec(state), spec, state)


def refuse_changed_user_file(spec: SweepSpec, state: SweepState) -> None:
    """Raise SpecChanged if the user's sweep file would give the results of none of the recorded specifications.

    `extend` leaves the user's file unchanged, so the file may match an earlier specification. The error lists the
    differences from the most similar one; of equally similar ones, the latest comes first.
    """
    if list_differences(read_recorded_spec(state), spec) and not equals_earlier_spec(spec, state):
        versions = [read_recorded_spec(state, version) for version in range(-1, len(state.specs) - 1)]
        nearest = min(versions, key=lambda old: (find_extension(old, spec) is None, len(list_differences(old, spec))))
        _refuse_difference(nearest, spec, state)


def _refuse_difference(recorded: SweepSpec, spec: SweepSpec, state: SweepState) -> None:
    """Raise SpecChanged if `spec` differs from `recorded`, with the command that makes the extension, if possible."""
    if not (changes := list_differences(recorded, spec)):
        return
    added, latest = find_extension(recorded, spec), read_recorded_spec(state)
    if added and list_differences(recorded, latest):
        # `recorded` is an earlier specification, so suggest only seeds that the latest one lacks.
        seeds = tuple(seed for seed in added.seeds if seed not in latest.seeds)
        added = Extension(seeds=seeds) if seeds and not added.grids and not added.configurations else None
    advice = f"{format_command('extend', state.folder)} {added.options}" if added else ""
    raise SpecChanged(state.folder, changes, advice)


def get_section(override: str) -> str:
    """Return the first part of the key of an override: get_section("resources.workers=3") -> "resources"."""
    return read_override_key(override).split(".")[0]


def refuse_fixed_sections(overrides: Sequence[str], allowed: str) -> None:
    """Raise UserError for overrides of the name, description or claims, which are fixed once a sweep has begun.

    Overrides of anything that changes results are refused where specifications are compared.
    """
    fixed_sections = set(PASSIVE) - set(CHANGEABLE_SECTIONS)
    if fixed := [section for section in map(get_section, overrides) if section in fixed_sections]:
        raise UserError(f"--set {', '.join(fixed)}: cannot be changed; allowed: {allowed}")


def equals_earlier_spec(spec: SweepSpec, state: SweepState) -> bool:
    """Return whether `spec` is the specification of the sweep before an extension."""
    if not list_differences(read_recorded_spec(state), spec):
        return False
    return any(
        not list_differences(read_recorded_spec(state, version), spec) for version in range(len(state.specs) - 1)
    )


def load_spec(state: SweepState, overrides: Sequence[str] = ()) -> SweepSpec:
    """Return the specification of sweep.yaml, which is first rewritten if it is missing or out of date.

    It is out of date if a driver recorded an extension and died before it rewrote the file. Keys of the space have the
    order of the ledger, on which draws depend. Raises SweepFileError for problems of the file, and SpecChanged if it or
    `overrides` change results.
    """
    path = state.folder / SPEC_FILE
    if not path.exists():
        write_spec(state.spec, state.folder)
    elif len(state.specs) > 1 and equals_earlier_spec(stale := _load_file(path), state):
        rewrite_spec(copy_settings(read_recorded_spec(state), stale).resolved(), state.folder)
    spec = _load_file(path, overrides)
    refuse_changed_sweep_yaml(spec, state)
    spec = spec.model_copy(update={"space": {key: spec.space[key] for key in read_recorded_spec(state).space}})
    return spec.set_folder(find_program(state) or spec.folder)


def _load_file(path: Path, overrides: Sequence[str] = ()) -> SweepSpec:
    """Return the specification in sweep.yaml; errors in the file have advice on how to restore it."""
    try:
        return load_sweep(path, overrides, recorded=True)
    except SweepFileError as error:
        if not any(problem.where.startswith(str(path)) for problem in error.problems):
            raise
        advice = f"or delete {path}; it will be rewritten from the ledger"
        raise SweepFileError(error.problems, advice) from None


def copy_settings(spec: SweepSpec, other_spec: SweepSpec) -> SweepSpec:
    """Return `spec` with the description and CHANGEABLE_SECTIONS of `other_spec`, which do not affect results."""
    return spec.model_copy(update={key: getattr(other_spec, key) for key in ("description", *CHANGEABLE_SECTIONS)})


def list_differing_settings(spec: SweepSpec, other_spec: SweepSpec) -> list[str]:
    """Return the names of the CHANGEABLE_SECTIONS that differ; of `notify` only the host is compared."""
    first, second = redact_spec(spec.resolved()), redact_spec(other_spec.resolved())
    return [key for key in CHANGEABLE_SECTIONS if first.get(key) != second.get(key)]


def resolve_tracking_uri(spec: SweepSpec) -> SweepSpec:
    """Return `spec` with an absolute MLflow address: its own, else the address in MLflow's variable, if set.

    So the address means the same file in every working folder. Raises UserError for an invalid variable.
    """
    uri = spec.tracking.uri
    if uri is not None:
        uri = make_store_absolute(uri)
    elif spec.tracking.enabled:
        uri = read_uri_variable()
    return spec.model_copy(update={"tracking": spec.tracking.model_copy(update={"uri": uri})})


def rewrite_spec(spec: dict[str, Any], folder: Path) -> Path | None:
    """Rewrite sweep.yaml; return the path of the backup if the user had edited comments or layout, else None.

    Raises LedgerError with the path.
    """
    path, backup = folder / SPEC_FILE, None
    if path.exists() and (text := path.read_text(encoding="utf-8")) != dump_yaml(
        load_sweep(path, recorded=True).resolved()
    ):
        backups = (path.with_name(f"{SPEC_FILE}.before-{number}") for number in count(1))
        backup = next(name for name in backups if not name.exists())
        with convert_write_errors(backup, LedgerError):
            write_atomic(backup, [text.encode()])
    write_spec(spec, folder)
    return backup


def write_spec(spec: dict[str, Any], folder: Path) -> None:
    """Write sweep.yaml. Raises LedgerError with the path."""
    path = folder / SPEC_FILE
    with convert_write_errors(path, LedgerError):
        write_atomic(path, [dump_yaml(redact_spec(spec)).encode()])
