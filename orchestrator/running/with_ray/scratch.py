"""A temporary folder that is removed with its driver; folders of killed drivers are removed, too."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

PREFIX = "lengthwise-tune-"
LOCK = "in-use.lock"  # held by the owner of the folder; the system frees it however the owner ends


@contextmanager
def make_scratch_folder(
    prefix: str = PREFIX, parent: Path | None = None, release: Callable[[Path], None] = lambda folder: None
) -> Iterator[Path]:
    """Make a folder, empty but for its lock, and remove it at the end. First removes folders whose owner is dead.

    `release` ends the processes that the dead owner of a folder has left. `parent` is the temp directory by default.
    """
    parent = parent or Path(tempfile.gettempdir())
    for path in parent.glob(f"{prefix}*/{LOCK}"):
        _remove_if_abandoned(path, release)
    folder, lock = _make_locked_folder(prefix, parent)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        lock.release()


def _make_locked_folder(prefix: str, parent: Path) -> tuple[Path, FileLock]:
    """Return a new folder and its lock, which this process holds."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        lock = FileLock(folder / LOCK)
        try:
            lock.acquire(blocking=False)
        except Timeout:  # a lock that nobody holds yet looks abandoned: another driver has begun to remove the folder
            continue
        if folder.exists():
            return folder, lock
        lock.release()


def _remove_if_abandoned(path: Path, release: Callable[[Path], None]) -> None:
    """Remove the folder of a lock that nobody holds."""
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except (Timeout, OSError):  # in use, or somebody else's
        return
    release(path.parent)
    shutil.rmtree(path.parent, ignore_errors=True)
    lock.release()
