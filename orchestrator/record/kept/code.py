"""The user's own code of a sweep: copied into its folder, named by hash in the ledger, and imported from there.

`code/<start of its hash>/` holds the files of one module as they were, so that workers on other machines have them and
a report can be drawn years later. Training goes on only with the code the sweep was begun with, or with what the user
has accepted instead, which a `resume` record then names.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from orchestrator.code.code_archive import CODE_FOLDER
from orchestrator.code.own_code import OwnCodeError, Source, find, imported, load
from orchestrator.code.sources import changed_since, version_change
from orchestrator.errors import LedgerError
from orchestrator.record.state.state import SweepState
from orchestrator.wording import differing, first_few
from trainers.files.atomic_file import write_whole


def keep(folder: Path, sources: Iterable[Source]) -> list[dict[str, Any]]:
    """Copy modules that are not installed packages into the sweep folder; what the ledger records of all of them.

    Raises OwnCodeError when a file is no longer what was imported, LedgerError when a copy cannot be written.
    """
    recorded = []
    for source in sources:
        recorded.append(source.recorded())
        for name, sha256 in source.files.items() if not source.installed else ():
            target = _copy_of(folder, source) / name
            if target.exists():
                continue
            try:
                content = (source.root / name).read_bytes()
                if source.sha256_of(content) != sha256:
                    raise OwnCodeError(f"{source.module}: {source.root / name} was changed while the sweep was begun")
                target.parent.mkdir(parents=True, exist_ok=True)
                write_whole(target, [content])
            except OSError as error:
                raise LedgerError(f"{target}: cannot be written: {error.strerror}") from error
    return recorded


def import_recorded(state: SweepState) -> None:
    """Import what a sweep was last trained with, for reading its results: from the copies in its folder.

    Raises OwnCodeError when this process has imported other code of the same name, or the files are not there.
    """
    for fields in state.code:
        source = Source.from_recorded(fields)
        known = imported(source.module)
        if known is None or known.sha256 != source.sha256:
            load(_from_copy(state.folder, source))


def import_to_go_on(state: SweepState, *, accept_change: bool) -> tuple[tuple[Source, ...], list[str]]:
    """Import what a sweep may go on with, from where it lay when the sweep was begun; and what is to be said of it.

    Raises OwnCodeError for a module that is missing or changed, and for changed files of the working folders, unless
    `accept_change`: then the changed module counts, and the copy in the sweep folder where it is missing.
    """
    sources, notes, faults = [], [], []
    for fields in state.code:
        then = Source.from_recorded(fields)
        copy = _copy_of(state.folder.resolve(), then)
        root = copy if then.root.parts[-2:] == copy.parts[-2:] else then.root  # a copy moves with its sweep
        try:
            now = find(then.module, [root])
            if now.root != root.resolve() and now.sha256 != then.sha256 and not then.installed:
                raise OwnCodeError(f"{then.module} is no longer in {root}, and that in {now.root} is another one")
        except OwnCodeError as error:
            if not accept_change:
                faults.append(f"{error}; {_kept(state, then)}")
                continue
            now = _from_copy(state.folder, then)
            notes.append(f"{then.module} is no longer in {then.root}; the copy in {now.root} is used")
        if now.sha256 != then.sha256:
            changed = first_few(differing(then.files, now.files))
            if not accept_change:
                faults.append(
                    f"{then.module} in {now.root} has changed since this sweep was begun ({changed}); "
                    f"{_kept(state, then)}"
                )
                continue
            notes.append(f"{then.module} has changed ({changed}); what is trained from here on is trained with it")
        sources.append(now)
    if then_and_now := version_change(state.sources):
        notes.append("this sweep was last trained with lengthwise {}; it goes on with {}".format(*then_and_now))
    if state.sources and (changes := changed_since(state.sources[-1])):
        said = first_few(changes, most=10)
        if not accept_change:
            faults.append(f"the code is not what this sweep was last trained with: {said}; {_as_it_was(state)}")
        notes.append(f"{said}; what is trained from here on is trained with the code as it is now")
    if faults:
        raise OwnCodeError("\n".join(faults))
    for source in sources:
        load(source)
    return tuple(sources), notes


def for_worker(folder: Path, recorded: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What a worker needs to import the modules of a sweep: from the sweep folder, installed packages from its own."""
    sources = [Source.from_recorded(fields) for fields in recorded]
    return [
        {**source.recorded(), "root": str(source.root if source.installed else _copy_of(folder.resolve(), source))}
        for source in sources
    ]


def import_on_worker(code: Iterable[Mapping[str, Any]]) -> None:
    """Import what `for_worker` named. Raises OwnCodeError when this machine does not have the same files."""
    for fields in code:
        wanted = Source.from_recorded(fields)
        known = imported(wanted.module)
        found = known or find(wanted.module, [] if wanted.installed else [wanted.root])
        if found.sha256 != wanted.sha256:
            changed = first_few(differing(wanted.files, found.files))
            raise OwnCodeError(f"{wanted.module} in {found.root} is not what the sweep was planned with ({changed})")
        load(found)


def own_files(code: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """The files that this process has imported of the modules that `for_worker` named."""
    sources = [imported(fields["module"]) for fields in code]
    return frozenset(str(source.root / name) for source in sources if source for name in source.files)


def _copy_of(folder: Path, source: Source) -> Path:
    return folder / CODE_FOLDER / source.sha256[:12]


def _from_copy(folder: Path, source: Source) -> Source:
    root = source.root if source.installed else _copy_of(folder.resolve(), source)
    found = find(source.module, [root])
    if found.sha256 != source.sha256:
        changed = first_few(differing(source.files, found.files))
        raise OwnCodeError(f"{source.module} in {root} is not what this sweep was trained with ({changed})")
    return found


def _kept(state: SweepState, source: Source) -> str:
    copy = _copy_of(state.folder, source)
    undo = "" if source.installed else f"undo the change (the files as they were: {copy}), or "
    return f"{undo}go on all the same with --accept-code-change, which is recorded"


def _as_it_was(state: SweepState) -> str:
    sources = state.sources[-1]
    commits = [f"commit {tree['commit'][:12]} of {tree['root']}" for tree in sources["trees"] if tree["commit"]]
    archive = [str(state.folder / sources["archive"]["file"])] if sources["archive"] else []
    where = f" (as it was: {' and '.join([*commits, *archive])})" if commits or archive else ""
    return f"undo the change{where}, or go on all the same with --accept-code-change, which is recorded"
