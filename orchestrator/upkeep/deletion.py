"""Delete a sweep, or its checkpoints alone: the files that lengthwise wrote. Files of the user stay."""

import shutil
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from orchestrator.addresses import address_of
from orchestrator.claims.registration import CLAIMS_COPY
from orchestrator.code.code_record import CODE_FOLDER
from orchestrator.errors import LengthwiseError, UserError
from orchestrator.interface.trainer import MEMBERS_FOLDER
from orchestrator.mirror.driver_lock import DRIVERS, NUMBER_FILE, DriverLock
from orchestrator.mirror.fetch import LEDGERS
from orchestrator.record.kept.curves import CURVES_FILE, CURVES_FOLDER
from orchestrator.record.ledger.folders import (
    CHECKPOINTS_FOLDER,
    FILES,
    FOLDERS,
    LEDGER_FILE,
    REPORT_HTML,
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
from orchestrator.upkeep.listing import format_size

_DERIVED = (SPEC_FILE, CURVES_FILE, REPORT_HTML, CLAIMS_COPY, *TABLES, *OUTDATED_FILES)
_OF_ADDRESSES = (LEDGERS, DRIVERS, NUMBER_FILE)
_WHOLE = {
    *FILES,
    *_DERIVED,
    *_OF_ADDRESSES,
    CHECKPOINTS_FOLDER,
    CODE_FOLDER,
    MEMBERS_FOLDER,
}  # with everything below them
_OTHERS = (
    *(f"{CURVES_FOLDER}/*.parquet", "figures/*.png", f"{WEIGHTS_FOLDER}/*.safetensors"),
    *(f"{LEDGER_FILE}.damaged-*", ".*.tmp"),  # a ledger before its repair; what a killed process left
)


@dataclass(frozen=True, kw_only=True)
class Deletion:
    """The files that would be deleted of a sweep folder and at its address, and those that are not lengthwise's.

    With `checkpoints_only` the sweep stays.
    """

    folder: Path
    entries: tuple[Path, ...]
    foreign: tuple[str, ...]
    address: str | None = None
    objects: tuple[int, ...] = ()  # their bytes
    relations: tuple[str, ...] = ()  # what other sweeps lose or keep, in sentences
    copies: tuple[str, ...] = ()  # sweeps beside it that are the same one, and have the same MLflow runs
    published_at: tuple[str, ...] = ()  # addresses of MLflow
    checkpoints_only: bool = False

    @property
    def sentence(self) -> str:
        """The files that would be deleted, in a line."""
        sizes = [size for entry in self.entries for size in _file_sizes(entry)]
        foreign = [f"these stay, which lengthwise has not written: {', '.join(self.foreign)}"] if self.foreign else []
        remaining = "".join(f"; {sentence}" for sentence in (*foreign, *self.relations))
        kind = " of checkpoints" if self.checkpoints_only else ""
        copy = f"{self.folder}: {len(sizes)} files{kind}, {format_size(sum(sizes))}"
        if self.address is None:
            return copy + remaining
        size = format_size(sum(self.objects))
        return f"{self.address}: {len(self.objects)} objects{kind}, {size}, and the copy of it in {copy}{remaining}"


def plan_deletion(folder: Path, *, checkpoints_only: bool = False) -> Deletion:
    """Return the files that deleting the sweep in `folder`, or its checkpoints, would remove, at its address too.

    Raises UserError for a folder that is no sweep or has no checkpoints, for a link in the place of the folder or its
    checkpoints, StorageError and StorageRefused.
    """
    if folder.is_symlink():
        raise UserError(f"{folder} is a link to {folder.readlink()}; give the folder itself")
    if checkpoints_only and (link := folder / CHECKPOINTS_FOLDER).is_symlink():
        raise UserError(f"{link} is a link to {link.readlink()}; delete the checkpoints there")
    if not has_ledger(folder):
        raise make_no_sweep_error(folder)

    # The files of the folder, and the objects at its address.
    entries = {entry.relative_to(folder).as_posix(): entry for entry in sorted(_list_entries(folder))}
    address = address_of(folder)
    stored = ObjectStore(address).sizes() if address is not None else {}
    names = dict.fromkeys([*entries, *stored])
    planned = Deletion(
        folder=folder,
        entries=tuple(entry for name, entry in entries.items() if _is_deleted(name, checkpoints_only)),
        foreign=() if checkpoints_only else tuple(name for name in names if not _is_deleted(name)),
        address=address,
        objects=tuple(size for name, size in stored.items() if _is_deleted(name, checkpoints_only)),
        checkpoints_only=checkpoints_only,
    )

    # Without checkpoints nothing can continue from them.
    if checkpoints_only:
        if not planned.entries + planned.objects:
            raise UserError(f"{folder}: has no checkpoints")
        lost = "unfinished packs restart from step 0; extend --steps has no checkpoint to resume from"
        return replace(planned, relations=(lost, *_describe_continuing(folder)))
    try:
        state = SweepState.load(folder)
    except LengthwiseError:  # a damaged sweep can be deleted, too
        return planned

    # Other sweeps that are related to this one, and what they lose.
    this_sweep = read_lineage(folder)
    alike = [
        sibling
        for sibling in read_lineages(folder.resolve().parent, strict=False)
        if sibling.identity == this_sweep.identity
    ]
    copies = [sibling.folder.name for sibling in alike if sibling.folder.resolve() != folder.resolve()]
    relations = [f"the copy {name} and the MLflow runs stay" for name in copies]
    relations += [f"its confirmation {sibling.folder.name} stays" for sibling in find_confirmations(state)]
    relations += _describe_continuing(folder)
    relations += [
        f"the report of {sibling.folder.name} loses these confirmed scores" for sibling in find_confirmed_sweeps(state)
    ]
    return replace(planned, relations=tuple(relations), copies=tuple(copies), published_at=tuple(state.published_at))


def _describe_continuing(folder: Path) -> list[str]:
    """Return a sentence for each sweep beside `folder` that trains its members further."""
    siblings = read_lineages(folder.resolve().parent, strict=False)
    names = [sibling.folder.name for sibling in siblings if sibling.continues == folder.resolve().name]
    return [f"members that {name} has not resumed yet restart from step 0" for name in names]


def delete_sweep(planned: Deletion, delete_runs: Callable[[], None] = lambda: None) -> None:
    """Delete the planned files, the ledger last, and the folder of a whole sweep if it is empty then.

    `delete_runs` is called before the first of them, once no driver can run the sweep.

    Raises SweepLocked, naming the driver, while the sweep is being run, UserError for what cannot be deleted,
    StorageError and StorageRefused. A deletion that was interrupted can be repeated.
    """
    # Runs and objects first, then files, the ledger last.
    late = {planned.folder / name for name in FILES}
    with SweepLock(planned.folder):
        if planned.address is None:
            delete_runs()
        else:
            _delete_objects(ObjectStore(planned.address), planned, delete_runs)
        for entry in planned.entries:
            if entry not in late:
                _delete(entry)
        for name in FOLDERS:
            with suppress(OSError):  # files of the user are in it, or it is not there
                (planned.folder / name).rmdir()
        if planned.checkpoints_only:
            return
        _delete(planned.folder / LEDGER_FILE)

    # The lock is released: delete its file, and the folder if it is empty.
    for entry in late:
        _delete(entry)
    with suppress(OSError):  # files of the user are in it
        planned.folder.rmdir()


def _delete_objects(store: ObjectStore, planned: Deletion, delete_runs: Callable[[], None]) -> None:
    """Delete the runs and the objects of a sweep, its ledger last.

    The objects are listed again: another machine may have continued the sweep while the user was asked.
    """
    lock = DriverLock(store, planned.folder)
    lock.acquire()
    try:
        delete_runs()
        names = [name for name in store.sizes() if _is_deleted(name, planned.checkpoints_only)]
        store.delete(name for name in names if not name.startswith((f"{DRIVERS}/", f"{LEDGERS}/")))
        lock.beat()
        store.delete(name for name in names if name.startswith(f"{LEDGERS}/"))
    finally:
        lock.release()
    if not planned.checkpoints_only:
        store.delete(store.sizes(DRIVERS))


def _is_deleted(path: str, checkpoints_only: bool = False) -> bool:
    """Return whether lengthwise wrote a file in a sweep's folder or an object at its address, a checkpoint if asked."""
    name = path.partition("/")[0]
    if checkpoints_only:
        return name == CHECKPOINTS_FOLDER
    patterns = [pattern for pattern in _OTHERS if pattern.count("/") == path.count("/")]
    return name in _WHOLE or path in FOLDERS or any(PurePosixPath(path).match(pattern) for pattern in patterns)


def _list_entries(folder: Path) -> Iterator[Path]:
    """Yield the entries of a sweep folder; in place of a folder of lengthwise, unless it is a link, its entries."""
    for entry in folder.iterdir():
        if entry.name in FOLDERS and entry.is_dir() and not entry.is_symlink():
            yield from entry.iterdir()
        else:
            yield entry


def _file_sizes(entry: Path) -> Iterator[int]:
    """Yield the bytes of a file or link, or of those below a folder; a file that has vanished meanwhile has none."""
    below = entry.rglob("*") if entry.is_dir() and not entry.is_symlink() else [entry]
    for path in below:
        with suppress(FileNotFoundError):
            if not stat.S_ISDIR((status := path.lstat()).st_mode):
                yield status.st_size


def _delete(entry: Path) -> None:
    try:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"{error.filename or entry}: cannot be deleted: {error.strerror}") from error
