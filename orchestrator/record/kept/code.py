"""Import the modules of a recorded sweep: for its results, to resume it, and on workers.

`code/<start of its digest>/` in the sweep folder holds the files of one module as they were, so that workers on other
machines have them and a report can be drawn years later. A sweep resumes only with the code of its latest record,
unless the user accepts a change, which the next `resume` record then has.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from orchestrator.code.code_record import changed_code, copy_folder, version_change
from orchestrator.code.own_code import (
    DATA,
    PROGRAM,
    OwnCodeError,
    Source,
    find_module,
    load_module,
    loaded_module,
    program_files,
)
from orchestrator.code.trust import refuse_untrusted
from orchestrator.record.ledger.folders import has_ledger
from orchestrator.record.state.state import SweepState
from orchestrator.text.wording import differing_keys, first_few
from search_spaces import SweepSpec


def import_recorded(state: SweepState) -> None:
    """Import the modules of the latest record from the copies in the sweep folder, to read results.

    Raises OwnCodeError if this process has imported other code of the same name, or if files are missing, UntrustedCode
    for a sweep that is not trusted.
    """
    search_recorded_data(state)
    sources = [source for fields in state.modules if not _is_loaded(source := Source.from_recorded(fields))]
    sources = [source for source in sources if source.module != DATA]
    files = [_describe_files(source, _copy_path(state.folder, source)) for source in sources]
    refuse_untrusted(state, [*files, *_describe_programs(state)])
    for source in sources:
        load_module(_find_copy(state.folder, source))


def search_recorded_data(state: SweepState) -> None:
    """Search data where they were if they are unchanged, else in their copies. Raises OwnCodeError without any."""
    for fields in state.modules:
        if fields["module"] == DATA:
            load_module(_find_unchanged(state.folder, Source.from_recorded(fields)))


def import_to_resume(state: SweepState, *, accept_change: bool) -> tuple[tuple[Source, ...], list[str]]:
    """Import the modules from where they were when the sweep was started; return them and messages for the user.

    Raises OwnCodeError for code that is missing or changed, unless `accept_change`: then the changed code is used, and
    the copy in the sweep folder of a missing module; UntrustedCode for a sweep that is not trusted.
    """
    sources, notes, problems = list[Source](), list[str](), list[str]()
    accept = "accept it, which is recorded, by adding --accept-code-change"

    # Find every module again; one that is missing or changed is a problem, unless changes are accepted.
    for fields in state.modules:
        then = Source.from_recorded(fields)
        if then.module == DATA:
            sources.append(_find_unchanged(state.folder, then))
            continue
        try:
            now, change = _find_again(state.folder.resolve(), then), ""
        except OwnCodeError as error:
            now, change = then, str(error)
            if accept_change:
                now = _find_copy(state.folder, then)
                change = f"{then.module} is no longer in {then.root}; the copy in {now.root} is used"
        if now.sha256 != then.sha256:
            files = first_few(differing_keys(then.files, now.files))
            change = f"{then.module} in {now.root} has changed since this sweep was last trained ({files})"
        if change:
            undo = "" if then.installed else f"undo the change (copies: {_copy_path(state.folder, then)}), or "
            notes.append(f"{change}; training continues with it")
            problems += [] if accept_change else [f"{change}; {undo}{accept}"]
        sources.append(now)

    # The version of lengthwise, and the user's repositories.
    if versions := version_change(state.codes):
        notes.append("this sweep was last trained with lengthwise {}; it resumes with {}".format(*versions))
    if state.codes and (changes := changed_code(state.codes[-1])):
        change = first_few(changes, maximum=10)
        notes.append(f"{change}; training continues with the code as it is now")
        problems += [] if accept_change else [f"{change}; undo the change{_describe_commits(state)}, or {accept}"]

    # Only code that this user trusts is imported.
    if problems:
        raise OwnCodeError("\n".join(problems))
    code = [source for source in sources if source.module != DATA and not _is_loaded(source)]
    started = [_describe_files(source, source.root) for source in code]
    refuse_untrusted(state, [*started, *_describe_programs(state)])
    for source in sources:
        load_module(source)
    return tuple(sources), notes


def find_program(state: SweepState) -> Path | None:
    """Return where the files of the program are: where they were if they are unchanged, else their copies.

    None for models of the engine. Raises OwnCodeError if the copies are damaged.
    """
    for then in (Source.from_recorded(fields) for fields in state.modules if fields["module"] == PROGRAM):
        return _find_unchanged(state.folder, then).root
    return None


def use_recorded_files(spec: SweepSpec | None) -> None:
    """Set where `spec` looks for its program and data if it was read from the recorded copy in a sweep folder.

    Raises OwnCodeError if the recorded copies are damaged.
    """
    if spec is not None and spec.folder is not None and has_ledger(spec.folder):
        state = SweepState.load(spec.folder)
        search_recorded_data(state)
        spec.in_folder(find_program(state) or spec.folder)


def read_program(state: SweepState) -> dict[str, bytes]:
    """Return the files of the program by name, as they were when it was last trained; none for models of the engine."""
    folder = find_program(state)
    names = [name for fields in state.modules if fields["module"] == PROGRAM for name in fields["files"]]
    return {name: (folder / name).read_bytes() for name in names} if folder else {}


def make_worker_modules(folder: Path, modules: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the recorded modules with the root that workers import from: the sweep folder, unless installed."""
    sources = [Source.from_recorded(fields) for fields in modules]
    return [
        {**source.recorded(), "root": str(_copy_path(folder.resolve(), source)), "origin": str(source.root)}
        for source in sources
    ]


def import_on_worker(code: Iterable[Mapping[str, Any]]) -> None:
    """Import `make_worker_modules`. Raises OwnCodeError if this machine does not have the same files."""
    for fields in code:
        recorded = Source.from_recorded(fields)
        if recorded.module == DATA:  # its tasks compare the hash when they read it
            load_module(recorded)
            continue
        if recorded.module == PROGRAM:
            _check_same(program_files(recorded.root, recorded.files), recorded)
            continue
        known = loaded_module(recorded.module) or find_module(
            recorded.module, [] if recorded.installed else [recorded.root]
        )
        load_module(_check_same(known, recorded))


def list_imported_files(code: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """Return the files that this process has imported of `make_worker_modules`."""
    sources = [loaded_module(fields["module"]) for fields in code]
    return frozenset(str(source.root / name) for source in sources if source for name in source.files)


def _is_loaded(source: Source) -> bool:
    known = loaded_module(source.module)
    return known is not None and known.sha256 == source.sha256


def _describe_programs(state: SweepState) -> list[str]:
    """Return the commands and functions that members are trained by; a forged ledger may leave out their files."""
    sections = [state.spec, *(configuration.resolved for configuration in state.configurations.values())]
    programs = [section["program"] for section in sections if isinstance(section.get("program"), dict)]
    started = [program.get("command") or program.get("function") for program in programs]
    return list(dict.fromkeys(f"program: {program}" for program in started if program))


def _describe_files(source: Source, root: Path) -> str:
    if source.module == PROGRAM:
        return f"files of a program: {first_few(sorted(source.files)) or 'none'} in {root}"
    return f"module {source.module}: {first_few(sorted(source.files))} in {root}"


def _copy_path(folder: Path, source: Source) -> Path:
    return source.root if source.installed else folder / copy_folder(source.sha256)


def _find_again(folder: Path, then: Source) -> Source:
    """Find a module where it was; a recorded copy moves with its sweep folder."""
    if then.module == PROGRAM:
        return program_files(then.root, then.files)
    copy = _copy_path(folder, then)
    root = copy if then.root.parts[-2:] == copy.parts[-2:] else then.root
    now = find_module(then.module, [root])
    if now.root != root.resolve() and now.sha256 != then.sha256 and not then.installed:
        raise OwnCodeError(f"{then.module} is no longer in {root}, and the one in {now.root} differs from it")
    return now


def _find_unchanged(folder: Path, then: Source) -> Source:
    """Find the files of a program or of data where they were if they are unchanged, else their copies."""
    with suppress(OwnCodeError):
        return replace(then, root=_check_same(program_files(then.root, then.files), then).root)
    return replace(then, root=_find_copy(folder, then).root)


def _find_copy(folder: Path, source: Source) -> Source:
    if source.module in (PROGRAM, DATA):
        return _check_same(program_files(_copy_path(folder.resolve(), source), source.files), source)
    return _check_same(find_module(source.module, [_copy_path(folder.resolve(), source)]), source)


def _check_same(source: Source, recorded: Source) -> Source:
    if source.sha256 != recorded.sha256:
        changed = first_few(differing_keys(recorded.files, source.files))
        raise OwnCodeError(f"{recorded.module} in {source.root} is not the one recorded by this sweep ({changed})")
    return source


def _describe_commits(state: SweepState) -> str:
    folders = [tree for tree in state.codes[-1]["folders"] if tree["commit"]]
    places = [f"commit {tree['commit'][:12]} of {tree['root']}" for tree in folders]
    places += [str(state.folder / tree["diff"]["file"]) for tree in folders if tree["diff"] and tree["diff"]["file"]]
    return f" (recorded: {' and '.join(places)})" if places else ""
