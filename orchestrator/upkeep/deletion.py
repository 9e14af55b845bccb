"""Delete a sweep: the files that lengthwise wrote, and its MLflow runs if asked. Files of the user stay."""

import shutil
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from orchestrator.addresses import address_of
from orchestrator.claims.registration import KEPT
from orchestrator.errors import UserError
from orchestrator.mirror.fetch import SEEN_FILE, SEGMENTS
from orchestrator.mirror.lease import NUMBER_FILE, OWNERS, Lease
from orchestrator.record.kept.curves import CURVES_FILE
from orchestrator.record.ledger.folders import FILES, FOLDERS, LEDGER_FILE, has_ledger, make_no_sweep_error
from orchestrator.record.ledger.lock import SweepLock
from orchestrator.report.csv_tables import TABLES
from orchestrator.report.files import REPORT_HTML
from orchestrator.storage import Store
from orchestrator.sweep.specification import SPEC_FILE
from orchestrator.upkeep.listing import readable_size, size_on_disk

_DERIVED = (SPEC_FILE, CURVES_FILE, REPORT_HTML, KEPT, *TABLES)
_OF_ADDRESSES = (SEGMENTS, OWNERS, NUMBER_FILE, SEEN_FILE)
_OTHERS = (f"{LEDGER_FILE}.damaged-*", ".*.tmp")  # a ledger before its repair; what a killed process left


@dataclass(frozen=True, kw_only=True)
class Deletion:
    """The files that would be deleted of a sweep folder and at its address, and those that are not lengthwise's."""

    folder: Path
    entries: tuple[Path, ...]
    foreign: tuple[str, ...]
    address: str | None = None
    objects: tuple[int, ...] = ()  # their bytes

    @property
    def sentence(self) -> str:
        """What would be deleted, in a line."""
        files = sum(1 for entry in self.entries for path in (entry, *entry.rglob("*")) if not path.is_dir())
        stays = f"; these stay, which lengthwise has not written: {', '.join(self.foreign)}" if self.foreign else ""
        copy = f"{self.folder}: {files} files, {readable_size(size_on_disk(self.folder))}"
        if self.address is None:
            return copy + stays
        size = readable_size(sum(self.objects))
        return f"{self.address}: {len(self.objects)} objects, {size}, and the copy of it in {copy}{stays}"


def plan_deletion(folder: Path) -> Deletion:
    """Return the files that deleting the sweep in `folder` would remove, at its address too.

    Raises UserError for a folder that is no sweep, StorageError and StorageRefused.
    """
    if folder.is_symlink():
        raise UserError(f"{folder} is a link to {folder.readlink()}; give the folder itself")
    if not has_ledger(folder):
        raise make_no_sweep_error(folder)
    entries = sorted(folder.iterdir())
    own = tuple(entry for entry in entries if _is_own(entry.name))
    foreign = [entry.name for entry in entries if entry not in own]
    address, objects = address_of(folder), dict[str, int]()
    if address is not None:
        found = Store(address).sizes()
        objects = {name: size for name, size in found.items() if _is_own_object(name)}
        foreign += [name for name in found if name not in objects]
    return Deletion(
        folder=folder,
        entries=own,
        foreign=tuple(dict.fromkeys(foreign)),
        address=address,
        objects=tuple(objects.values()),
    )


def delete_sweep(planned: Deletion) -> None:
    """Delete the planned files, the ledger last, and the folder if it is empty then.

    Raises SweepLocked, naming the driver, while the sweep is being run, UserError for what cannot be deleted,
    StorageError and StorageRefused. A deletion that was interrupted can be repeated.
    """
    late = {planned.folder / name for name in FILES}
    with SweepLock(planned.folder):
        if planned.address is not None:
            _delete_objects(Store(planned.address), planned.folder)
        for entry in planned.entries:
            if entry not in late:
                _delete(entry)
        _delete(planned.folder / LEDGER_FILE)
    for entry in late:
        _delete(entry)
    with suppress(OSError):  # files of the user are in it
        planned.folder.rmdir()


def _delete_objects(store: Store, folder: Path) -> None:
    """Delete the objects of a sweep; of its ledger the last segment first, so that what is left is its beginning.

    They are those that are there now: another machine may have continued the sweep while the user was asked.
    """
    lease = Lease(store, folder)
    lease.acquire()
    try:
        names = [name for name in store.sizes() if _is_own_object(name) and not name.startswith(f"{OWNERS}/")]
        segments = [name for name in names if name.startswith(f"{SEGMENTS}/")]
        store.delete([*(name for name in names if name not in segments), *reversed(segments)])
    finally:
        lease.release()
    store.delete(store.sizes(OWNERS))


def _is_own(name: str) -> bool:
    return name in (*FILES, *FOLDERS, *_DERIVED, *_OF_ADDRESSES) or any(fnmatch(name, pattern) for pattern in _OTHERS)


def _is_own_object(name: str) -> bool:
    return _is_own(name.partition("/")[0])


def _delete(entry: Path) -> None:
    try:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"{error.filename or entry}: cannot be deleted: {error.strerror}") from error
