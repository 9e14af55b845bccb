"""Atomic writes: a file appears complete or not at all."""

import contextlib
import os
import re
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

_TEMPORARY = re.compile(r"\.(.+)\.\d+-\d+\.tmp")


def write_atomic(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write `pieces` to a temporary file beside `path`, sync it to disk, and rename it.

    The folder must exist. Several processes and threads may write the same file at once; the last one wins. Raises
    OSError and then leaves no temporary file; a killed process leaves `.<name>.<pid>-<thread>.tmp`.
    """
    write_all_atomic(path.parent, [(path.name, pieces)])


def write_all_atomic(folder: Path, files: Iterable[tuple[str, Iterable[bytes | memoryview]]]) -> None:
    """Write (name, pieces) files into a folder like `write_atomic`, but sync them only after all are written.

    This takes a fraction of the time of syncing each file by itself. If it raises OSError, some files may already be
    renamed.
    """
    # Temporary names are unique to this thread, because several may write the same file.
    unique = f"{os.getpid()}-{threading.get_ident()}"
    written: dict[Path, Path] = {}
    path = folder
    try:
        # Contents must be on disk before a file gets its final name, or a crash could leave a truncated file.
        for name, pieces in files:
            path = folder / name
            written[path] = temporary = path.with_name(f".{name.lstrip('.')}.{unique}.tmp")
            with temporary.open("wb") as file:
                for piece in pieces:
                    file.write(piece)
        for temporary in written.values():
            with _open_descriptor(temporary, os.O_WRONLY) as descriptor:
                os.fsync(descriptor)
        for path, temporary in written.items():
            temporary.replace(path)

        # Sync the folder, so that the new names survive a crash.
        path = folder
        with _open_descriptor(folder, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
            os.fsync(descriptor)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename is None:  # for example on a full disk
            error.filename = str(path)
        for temporary in written.values():
            with contextlib.suppress(OSError):
                temporary.unlink()
        raise


@contextlib.contextmanager
def _open_descriptor(path: Path, flags: int) -> Iterator[int]:
    """Open a file or folder as a descriptor, and close it at the end of the context."""
    descriptor = os.open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def get_final_name(name: str) -> str:
    """Return the final name of a temporary file of `write_atomic`; any other name unchanged."""
    match = _TEMPORARY.fullmatch(name)
    return match[1] if match else name
