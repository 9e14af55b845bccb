"""Import the modules of a recorded sweep: for its results, to resume it, and on workers.

`code/<start of its digest>/` in the sweep folder has a copy of each module, for workers on other machines and for
reports drawn years later. A sweep resumes only with the code of its latest record. If the user accepts a change, the
next `resume` record contains it.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from orchestrator.code.code_record import find_changed_code, find_version_change, name_copy_folder
from orchestrator.code.trust import refuse_untrusted
from orchestrator.code.user_code import (
    DATA,
    PROGRAM,
    CodeSource,
    UserCodeError,
    find_module,
    get_loaded_module,
    load_module,
    read_files,
)
from orchestrator.record.ledger.folders import has_ledger
from orchestrator.record.state.state import SweepState
from orchestrator.text.wording import join_first_few, list_differing_keys
from search_spaces import SweepSpec


def import_recorded(state: SweepState) -> None:
    """Import the modules of the latest record from the copies in the sweep folder, to read results.

    Raises UserCodeError if this process has imported other code of the same name, or if files are missing,
    UntrustedCode for a sweep that is not trusted.
    """
    add_data_folders(state)
    sources = [source for fields in state.modules if not _is_loaded(source := CodeSource.from_recorded(fields))]
    sources = [source for source in sources if source.module != DATA]
    files = [_describe_files(source, _get_copy_path(state.folder, source)) for source in sources]
    refuse_untrusted(state, [*files, *_describe_programs(state)])
    for source in sources:
        load_module(_find_copy(state.folder, source))


def add_data_folders(state: SweepState) -> None:
    """Search data in their recorded folder if unchanged, else in the copies. Raises UserCodeError without copies."""
    for fields in state.modules:
        if fields["module"] == DATA:
            load_module(_find_unchanged(state.folder, CodeSource.from_recorded(fields)))


def import_to_resume(state: SweepState, *, accept_change: bool) -> tuple[tuple[CodeSource, ...], list[str]]:
    """Import the modules from their recorded folders; return their sources, and messages for the user.

    Raises UserCodeError for code that is missing or changed. With `accept_change` changed code is used instead, and the
    copy of a missing module in the sweep folder. Raises UntrustedCode for a sweep that is not trusted.
    """
    sources, notes, problems = list[CodeSource](), list[str](), list[str]()
    retry_advice = "; crashed seeds also need --retry-failed" if state.failed_packs else ""
    accept_advice = f"accept it with --accept-code-change (this is recorded{retry_advice})"

    # All problems are collected, so that the user sees them at once.
    for fields in state.modules:
        recorded = CodeSource.from_recorded(fields)
        if recorded.module == DATA:
            sources.append(_find_unchanged(state.folder, recorded))
            continue

        # Compare the module in its recorded folder with the record; a missing one has a copy in the sweep folder.
        try:
            current, change = _find_current(state.folder.resolve(), recorded), ""
        except UserCodeError as error:
            current, change = recorded, str(error)
            if accept_change:
                current = _find_copy(state.folder, recorded)
                change = f"{recorded.title} is missing in {recorded.root}; using the copy in {current.root}"
        if current.sha256 != recorded.sha256:
            files = join_first_few(list_differing_keys(recorded.files, current.files))
            change = f"{recorded.title} in {current.root} has changed since the last training ({files})"

        # A change is refused with the way to undo it, or accepted with a note.
        if change:
            copies = _get_copy_path(state.folder, recorded)
            undo_advice = "" if recorded.installed else f"undo the change (copies: {copies}), or "
            notes.append(f"{change}; training continues with it")
            problems += [] if accept_change else [f"{change}; {undo_advice}{accept_advice}"]
        sources.append(current)

    # Another version of lengthwise is allowed: `refuse_changed_results` finds the configurations that it would change.
    if versions := find_version_change(state.codes):
        notes.append("last trained with lengthwise {}; resuming with {}".format(*versions))
    if state.codes and (changes := find_changed_code(state.codes[-1])):
        change = join_first_few(changes, maximum=10)
        notes.append(f"{change}; training continues with the current code")
        undo_advice = f"undo the change{_describe_commits(state)}, or "
        problems += [] if accept_change else [f"{change}; {undo_advice}{accept_advice}"]

    if problems:
        raise UserCodeError("\n".join(problems))

    # Importing code runs it, so it must be trusted first.
    sources_to_run = [source for source in sources if source.module != DATA and not _is_loaded(source)]
    code_to_run = [_describe_files(source, source.root) for source in sources_to_run]
    refuse_untrusted(state, [*code_to_run, *_describe_programs(state)])
    for source in sources:
        load_module(source)
    return tuple(sources), notes


def find_program(state: SweepState) -> Path | None:
    """Return the folder of the program's files: the recorded folder if unchanged, else the copies.

    None for models of the engine. Raises UserCodeError if the copies are damaged.
    """
    recorded = next((fields for fields in state.modules if fields["module"] == PROGRAM), None)
    if recorded is None:
        return None
    return _find_unchanged(state.folder, CodeSource.from_recorded(recorded)).root


def use_recorded_files(spec: SweepSpec | None) -> None:
    """Make a `spec` read from a sweep folder use the recorded program and data.

    Raises UserCodeError if the recorded copies are damaged.
    """
    if spec is not None and spec.folder is not None and has_ledger(spec.folder):
        state = SweepState.load(spec.folder)
        add_data_folders(state)
        spec.set_folder(find_program(state) or spec.folder)


def read_program(state: SweepState) -> dict[str, bytes]:
    """Return the program's files of the last training by name; empty for models of the engine."""
    folder = find_program(state)
    names = [name for fields in state.modules if fields["module"] == PROGRAM for name in fields["files"]]
    return {name: (folder / name).read_bytes() for name in names} if folder else {}


def make_worker_modules(folder: Path, modules: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the recorded modules with the root that workers import from: the sweep folder, unless installed."""
    sources = [CodeSource.from_recorded(fields) for fields in modules]
    return [
        {**source.to_fields(), "root": str(_get_copy_path(folder.resolve(), source)), "origin": str(source.root)}
        for source in sources
    ]


def import_on_worker(modules: Iterable[Mapping[str, Any]]) -> None:
    """Import the modules that `make_worker_modules` returned. Raises UserCodeError if files differ on this machine."""
    for fields in modules:
        recorded = CodeSource.from_recorded(fields)
        if recorded.module == DATA:  # its tasks compare the hash when they read it
            load_module(recorded)
            continue
        if recorded.module == PROGRAM:
            _refuse_difference(read_files(recorded.root, recorded.files), recorded)
            continue
        module = get_loaded_module(recorded.module) or find_module(
            recorded.module, [] if recorded.installed else [recorded.root]
        )
        load_module(_refuse_difference(module, recorded))


def list_imported_files(modules: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Return the imported files of the modules that `make_worker_modules` returned."""
    sources = [get_loaded_module(fields["module"]) for fields in modules]
    return frozenset(str(source.root / name) for source in sources if source for name in source.files)


def map_copies(modules: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the user's file for every copied file of the modules that `make_worker_modules` returned."""
    return {
        str(Path(fields["root"], name)): str(Path(fields["origin"], name))
        for fields in modules
        if fields.get("origin", fields["root"]) != fields["root"]
        for name in fields["files"]
    }


def _is_loaded(source: CodeSource) -> bool:
    """Return whether this process has imported the module from the same files."""
    loaded = get_loaded_module(source.module)
    return loaded is not None and loaded.sha256 == source.sha256


def _describe_programs(state: SweepState) -> list[str]:
    """Return the commands and functions that train members, from the sections: a forged ledger may omit their files."""
    sections = [state.spec, *(configuration.resolved for configuration in state.configurations.values())]
    programs = [section["program"] for section in sections if isinstance(section.get("program"), dict)]
    targets = [program.get("command") or program.get("function") for program in programs]
    return list(dict.fromkeys(f"program: {program}" for program in targets if program))


def _describe_files(source: CodeSource, root: Path) -> str:
    """Return the files of a source in `root` as a line, for the question of whether to trust them."""
    if source.module == PROGRAM:
        return f"files of a program: {join_first_few(sorted(source.files)) or 'none'} in {root}"
    return f"module {source.module}: {join_first_few(sorted(source.files))} in {root}"


def _get_copy_path(folder: Path, source: CodeSource) -> Path:
    """Return the folder of a module's copy in a sweep folder; installed modules are not copied."""
    return source.root if source.installed else folder / name_copy_folder(source.sha256)


def _find_current(folder: Path, recorded: CodeSource) -> CodeSource:
    """Find a module in its recorded folder; a recorded copy moves with its sweep folder."""
    if recorded.module == PROGRAM:
        return read_files(recorded.root, recorded.files)
    copy = _get_copy_path(folder, recorded)
    root = copy if recorded.root.parts[-2:] == copy.parts[-2:] else recorded.root
    current = find_module(recorded.module, [root])
    if current.root != root.resolve() and current.sha256 != recorded.sha256 and not recorded.installed:
        raise UserCodeError(f"{recorded.module} is missing in {root}, and differs in {current.root}")
    return current


def _find_unchanged(folder: Path, recorded: CodeSource) -> CodeSource:
    """Find the files of a program or of data in their recorded folder if unchanged, else their copies."""
    with suppress(UserCodeError):
        return replace(recorded, root=_refuse_difference(read_files(recorded.root, recorded.files), recorded).root)
    return replace(recorded, root=_find_copy(folder, recorded).root)


def _find_copy(folder: Path, source: CodeSource) -> CodeSource:
    """Return a source with the root of its copy in the sweep folder. Raises UserCodeError if the copy is damaged."""
    if source.module in (PROGRAM, DATA):
        return _refuse_difference(read_files(_get_copy_path(folder.resolve(), source), source.files), source)
    return _refuse_difference(find_module(source.module, [_get_copy_path(folder.resolve(), source)]), source)


def _refuse_difference(source: CodeSource, recorded: CodeSource) -> CodeSource:
    """Return the source. Raises UserCodeError if its files differ from the recorded ones."""
    if source.sha256 != recorded.sha256:
        changed = join_first_few(list_differing_keys(recorded.files, source.files))
        raise UserCodeError(f"{recorded.title} in {source.root} differs from the recorded files ({changed})")
    return source


def _describe_commits(state: SweepState) -> str:
    """Return the recorded commits and differences of the user's repositories; "" without repositories."""
    folders = [tree for tree in state.codes[-1]["folders"] if tree["commit"]]
    references = [f"commit {tree['commit'][:12]} of {tree['root']}" for tree in folders]
    references += [
        str(state.folder / tree["diff"]["file"]) for tree in folders if tree["diff"] and tree["diff"]["file"]
    ]
    return f" (recorded: {' and '.join(references)})" if references else ""
