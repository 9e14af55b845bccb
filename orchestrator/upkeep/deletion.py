"""Delete a sweep: what lengthwise wrote of it, and its MLflow runs if asked. Files of the user stay."""

import shutil
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from orchestrator.addresses import address_of
from orchestrator.claims.registration import KEPT
from orchestrator.errors import UserError
from orchestrator.record.kept.curves import CURVES_FILE
from orchestrator.record.ledger.folders import FILES, FOLDERS, LEDGER_FILE, has_ledger, no_sweep
from orchestrator.record.ledger.lock import SweepLock
from orchestrator.report.csv_tables import TABLES
from orchestrator.report.files import REPORT_HTML
from orchestrator.sweep.specification import SPEC_FILE
from orchestrator.upkeep.listing import readable_size, size_on_disk

_DERIVED = (SPEC_FILE, CURVES_FILE, REPORT_HTML, KEPT, *TABLES)
_OTHERS = (f"{LEDGER_FILE}.damaged-*", ".*.tmp")  # a ledger before its repair; what a killed process left


@dataclass(frozen=True, kw_only=True)
class Deletion:
    """What would be deleted of a sweep folder, and the entries in it that lengthwise has not written."""

    folder: Path
    entries: tuple[Path, ...]
    foreign: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """What would be deleted, in a line."""
        files = sum(1 for entry in self.entries for path in (entry, *entry.rglob("*")) if not path.is_dir())
        stays = f"; these stay, which lengthwise has not written: {', '.join(self.foreign)}" if self.foreign else ""
        return f"{self.folder}: {files} files, {readable_size(size_on_disk(self.folder))}{stays}"


def plan_deletion(folder: Path) -> Deletion:
    """Return what deleting the sweep in `folder` would delete; raises UserError for a folder that is no sweep."""
    if folder.is_symlink():
        raise UserError(f"{folder} is a link to {folder.readlink()}; give the folder itself")
    if (address := address_of(folder)) is not None:
        raise UserError(
            f"{folder} is the local copy of {address}: delete what is there by the means of that storage first"
        )
    if not has_ledger(folder):
        raise no_sweep(folder)
    entries = sorted(folder.iterdir())
    own = tuple(entry for entry in entries if _is_own(entry.name))
    return Deletion(folder=folder, entries=own, foreign=tuple(entry.name for entry in entries if entry not in own))


def delete_sweep(planned: Deletion) -> None:
    """Delete what was planned, the ledger last, and the folder if it is empty then.

    Raises SweepLocked, naming the driver, while the sweep is being run, and UserError for what cannot be deleted. A
    deletion that was interrupted can be repeated.
    """
    lock = SweepLock(planned.folder)
    lock.acquire()
    late = {planned.folder / name for name in FILES}
    try:
        for entry in planned.entries:
            if entry not in late:
                _delete(entry)
        _delete(planned.folder / LEDGER_FILE)
    finally:
        lock.release()
    for entry in late:
        _delete(entry)
    with suppress(OSError):  # files of the user are in it
        planned.folder.rmdir()


def _is_own(name: str) -> bool:
    return name in (*FILES, *FOLDERS, *_DERIVED) or any(fnmatch(name, pattern) for pattern in _OTHERS)


def _delete(entry: Path) -> None:
    try:
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"{error.filename or entry}: cannot be deleted: {error.strerror}") from error
