"""A folder in the temp directory for as long as a driver lives; those of drivers that were killed are taken away."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

PREFIX = "lengthwise-tune-"
LOCK = "in-use.lock"  # held by the owner of the folder, and freed by the system however that one ends


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """A new empty folder but for its lock, removed at the end. First removes those whose owner is dead."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{LOCK}"):
        _remove_if_abandoned(path)
    folder, lock = _locked()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()


def _locked() -> tuple[Path, FileLock]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        lock = FileLock(folder / LOCK)
        try:
            lock.acquire(blocking=False)
        except Timeout:  # another driver was about to remove it: a lock that nobody holds yet looks abandoned
            continue
        if folder.exists():
            return folder, lock
        lock.release()


def _remove_if_abandoned(path: Path) -> None:
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except (Timeout, OSError):  # in use, or somebody else's
        return
    shutil.rmtree(path.parent, ignore_errors=True)
    lock.release()
