"""Delete the files of a sweep, or only its checkpoints.

Files in folders of lengthwise go with them, also those that a program wrote there; other files of the user stay.
"""

import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from orchestrator.addresses import find_address
from orchestrator.claims.registration import CLAIMS_COPY
from orchestrator.code.code_record import CODE_FOLDER
from orchestrator.errors import LengthwiseError, UserError
from orchestrator.interface.trainer import MEMBERS_FOLDER
from orchestrator.interface.work import CHECKPOINTS_FOLDER
from orchestrator.mirror.driver_lock import DRIVERS, NUMBER_FILE, DriverLock
from orchestrator.mirror.fetch import LEDGERS
from orchestrator.program.member_folder import is_written_by_lengthwise
from orchestrator.record.files.curves import CURVES_FILE, CURVES_FOLDER
from orchestrator.record.ledger.folders import (
    IN_PLACE_FILES,
    LEDGER_FILE,
    REPORT_HTML,
    SWEEP_FOLDERS,
    WEIGHTS_FOLDER,
    has_ledger,
    make_no_sweep_error,
)
from orchestrator.record.ledger.lock import SweepLock
from orchestrator.record.state.lineage import find_confirmations, find_confirmed_sweeps, read_lineage, read_lineages
from orchestrator.record.state.state import SweepState
from orchestrator.report.csv_tables import OUTDATED_FILES, TABLES
from orchestrator.storage import ObjectStore
from orchestrator.sweep.specification import SPEC_FILE
from orchestrator.text.wording import format_count, join_first_few
from orchestrator.upkeep.listing import format_size

_DERIVED_FILES = (SPEC_FILE, CURVES_FILE, REPORT_HTML, CLAIMS_COPY, *TABLES, *OUTDATED_FILES)
_MIRROR_NAMES = (LEDGERS, DRIVERS, NUMBER_FILE)
_DELETED_NAMES = {
    *IN_PLACE_FILES,
    *_DERIVED_FILES,
    *_MIRROR_NAMES,
    CHECKPOINTS_FOLDER,
    CODE_FOLDER,
    MEMBERS_FOLDER,
}  # files, and folders with all contents
_DELETED_PATTERNS = (
    *(f"{CURVES_FOLDER}/*.parquet", "figures/*.png", f"{WEIGHTS_FOLDER}/*.safetensors"),
    *(f"{LEDGER_FILE}.damaged-*", ".*.tmp"),  # ledgers before a repair; files of killed processes
)


@dataclass(frozen=True, kw_only=True)
class Deletion:
    """The files to delete in a sweep folder and at its address, and the foreign files that stay.

    With `checkpoints_only` only checkpoints are deleted.
    """

    folder: Path
    entries: tuple[Path, ...]
    foreign: tuple[str, ...]
    program_files: tuple[str, ...] = ()  # those to delete that a program wrote into the folders of its members
    address: str | None = None
    object_sizes: tuple[int, ...] = ()  # bytes of each object at the address
    consequences: tuple[str, ...] = ()  # sentences about this sweep and related sweeps
    copies: tuple[str, ...] = ()  # copies of the sweep in the same storage, with the same MLflow runs
    published_at: tuple[str, ...] = ()  # addresses of MLflow
    checkpoints_only: bool = False

    @property
    def sentence(self) -> str:
        """A line about the files to delete."""
        sizes = [size for entry in self.entries for size in _list_file_sizes(entry)]
        programs = f"among them {format_count(len(self.program_files), 'file')} of the program: "
        written = [programs + join_first_few(self.program_files)] if self.program_files else []
        foreign = [f"not written by lengthwise, so these stay: {', '.join(self.foreign)}"] if self.foreign else []
        remaining = "".join(f"; {sentence}" for sentence in (*written, *foreign, *self.consequences))
        kind = "checkpoint " if self.checkpoints_only else ""
        copy = f"{self.folder}: {format_count(len(sizes), f'{kind}file')}, {format_size(sum(sizes))}"
        if self.address is None:
            return copy + remaining
        objects = format_count(len(self.object_sizes), f"{kind}object")
        return f"{self.address}: {objects}, {format_size(sum(self.object_sizes))}, and its copy in {copy}{remaining}"


def plan_deletion(folder: Path, *, checkpoints_only: bool = False) -> Deletion:
    """Return the planned deletion of the sweep in `folder`, or of its checkpoints, and of its objects at an address.

    Raises UserError if the folder is not a sweep or has no checkpoints, or if it or its checkpoints are a link,
    StorageError and StorageRefused.
    """
    # Deleting a link would leave the files behind it.
    if folder.is_symlink():
        raise UserError(f"{folder} is a link to {folder.readlink()}; give its target")
    if checkpoints_only and (link := folder / CHECKPOINTS_FOLDER).is_symlink():
        raise UserError(f"{link} is a link to {link.readlink()}; delete the checkpoints there")
    if not has_ledger(folder):
        raise make_no_sweep_error(folder)

    # Delete only files that lengthwise writes, in the folder and at its address; list all others to the user.
    entries = {entry.relative_to(folder).as_posix(): entry for entry in sorted(_list_entries(folder))}
    address = find_address(folder)
    objects = ObjectStore(address).list_sizes() if address is not None else {}
    names = dict.fromkeys([*entries, *objects])
    deletion = Deletion(
        folder=folder,
        entries=tuple(entry for name, entry in entries.items() if _is_deleted(name, checkpoints_only)),
        foreign=() if checkpoints_only else tuple(name for name in names if not _is_deleted(name)),
        program_files=() if checkpoints_only else tuple(_list_program_files(folder, objects)),
        address=address,
        object_sizes=tuple(size for name, size in objects.items() if _is_deleted(name, checkpoints_only)),
        checkpoints_only=checkpoints_only,
    )

    # Without checkpoints the sweep stays, so only training that resumes from them is affected.
    if checkpoints_only:
        if not deletion.entries + deletion.object_sizes:
            raise UserError(f"{folder}: no checkpoints to delete")
        lost = "unfinished packs restart from step 0; extend --steps has no checkpoint to resume from"
        return replace(deletion, consequences=(lost, *_describe_continuing(folder)))
    try:
        state = SweepState.load(folder)
    except LengthwiseError:  # a damaged sweep can be deleted, too
        return deletion

    # Copies of a folder are one sweep to MLflow, so its runs belong to all of them.
    identity = read_lineage(folder).identity
    siblings = read_lineages(folder.resolve().parent, strict=False)
    copies = [
        sibling.folder.name
        for sibling in siblings
        if sibling.identity == identity and sibling.folder.resolve() != folder.resolve()
    ]
    consequences = [
        *(f"the copy {name} and the MLflow runs stay" for name in copies),
        *(f"its confirmation {sibling.folder.name} stays" for sibling in find_confirmations(state)),
        *_describe_continuing(folder),
        *(f"the report of {sweep.folder.name} loses these confirmed scores" for sweep in find_confirmed_sweeps(state)),
    ]
    return replace(
        deletion, consequences=tuple(consequences), copies=tuple(copies), published_at=tuple(state.published_at)
    )


def _describe_continuing(folder: Path) -> list[str]:
    """Return a sentence for each sweep in the same storage that trains members of the sweep in `folder` further."""
    siblings = read_lineages(folder.resolve().parent, strict=False)
    names = [sibling.folder.name for sibling in siblings if sibling.continues == folder.resolve().name]
    return [f"members that {name} has not resumed yet restart from step 0" for name in names]


def delete_sweep(deletion: Deletion, delete_runs: Callable[[], None] = lambda: None) -> None:
    """Delete the planned files, the ledger last, and then the folder if it is empty.

    `delete_runs` is called first, once no driver can run the sweep. Raises SweepLocked with the driver if the sweep is
    running, UserError for files that cannot be deleted, StorageError and StorageRefused. An interrupted deletion can be
    repeated.
    """
    # The ledger goes last, because an interrupted deletion can be repeated as long as it exists.
    last_files = {deletion.folder / name for name in IN_PLACE_FILES}
    with SweepLock(deletion.folder):
        if deletion.address is None:
            delete_runs()
        else:
            _delete_objects(ObjectStore(deletion.address), deletion, delete_runs)
        for entry in deletion.entries:
            if entry not in last_files:
                _delete(entry)
        for name in SWEEP_FOLDERS:
            with suppress(OSError):  # not empty, or missing
                (deletion.folder / name).rmdir()
        if deletion.checkpoints_only:
            return
        _delete(deletion.folder / LEDGER_FILE)

    # The file of the lock can only be deleted after its release.
    for entry in last_files:
        _delete(entry)
    with suppress(OSError):  # not empty
        deletion.folder.rmdir()


def _delete_objects(store: ObjectStore, deletion: Deletion, delete_runs: Callable[[], None]) -> None:
    """Delete the runs and the objects of a sweep, the ledger last.

    The objects are listed again, because another machine may have continued the sweep during the confirmation prompt.
    """
    lock = DriverLock(store, deletion.folder)
    lock.acquire()
    try:
        # The ledger makes the address a sweep, and the driver's file is the lock, so both go last.
        delete_runs()
        names = [name for name in store.list_sizes() if _is_deleted(name, deletion.checkpoints_only)]
        store.delete(name for name in names if not name.startswith((f"{DRIVERS}/", f"{LEDGERS}/")))
        lock.beat()
        store.delete(name for name in names if name.startswith(f"{LEDGERS}/"))
    finally:
        lock.release()
    if not deletion.checkpoints_only:
        store.delete(store.list_sizes(DRIVERS))


def _is_deleted(path: str, checkpoints_only: bool = False) -> bool:
    """Return whether lengthwise wrote this path of a sweep; with `checkpoints_only` whether it is a checkpoint."""
    name = path.partition("/")[0]
    if checkpoints_only:
        return name == CHECKPOINTS_FOLDER
    # `match` compares from the right, so a pattern would also match files in deeper folders.
    patterns = [pattern for pattern in _DELETED_PATTERNS if pattern.count("/") == path.count("/")]
    return (
        name in _DELETED_NAMES
        or path in SWEEP_FOLDERS
        or any(PurePosixPath(path).match(pattern) for pattern in patterns)
    )


def _list_entries(folder: Path) -> Iterator[Path]:
    """Yield the entries of a sweep folder; a folder of lengthwise that is not a link is replaced by its entries."""
    for entry in folder.iterdir():
        if entry.name in SWEEP_FOLDERS and entry.is_dir() and not entry.is_symlink():
            yield from entry.iterdir()
        else:
            yield entry


def _list_program_files(folder: Path, objects: Iterable[str]) -> list[str]:
    """Return the paths of the files and objects that a program itself wrote into the folders of its members."""
    files = (path.relative_to(folder).as_posix() for path in folder.glob(f"{MEMBERS_FOLDER}/*/**/*") if path.is_file())
    paths = {*files, *(name for name in objects if name.startswith(f"{MEMBERS_FOLDER}/"))}
    return sorted(path for path in paths if not is_written_by_lengthwise(path.split("/", 2)[-1]))


def _list_file_sizes(entry: Path) -> Iterator[int]:
    """Yield the bytes of a file or link, or of all files in a folder, without files that vanish meanwhile."""
    paths = entry.rglob("*") if entry.is_dir() and not entry.is_symlink() else [entry]
    for path in paths:
        with suppress(FileNotFoundError):
            if not stat.S_ISDIR((status := path.lstat()).st_mode):
                yield status.st_size


def _delete(entry: Path) -> None:
    """Delete a file, a link or a folder; a missing one is ignored. Raises UserError if it cannot be deleted."""
    try:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"{error.filename or entry}: cannot delete: {error.strerror}") from error
