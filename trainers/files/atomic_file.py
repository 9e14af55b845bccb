"""Files that appear whole or not at all. Whatever this project writes by way of a temporary file, it writes here."""

import contextlib
import os
import re
import threading
from collections.abc import Iterable
from pathlib import Path

_TEMPORARY = re.compile(r"\.(.+)\.\d+-\d+\.tmp")


def write_whole(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write `pieces` to `path` by way of a file beside it, which is on disk before it takes the name.

    The folder must be there: one that was deleted is not made again. Several processes and threads may write the same
    file at once, and one of them is last. Raises OSError, and then leaves nothing behind. A process that is killed
    leaves `.<name>.<pid>-<thread>.tmp`.
    """
    unique = f"{os.getpid()}-{threading.get_ident()}"
    temporary = path.with_name(f".{path.name.lstrip('.')}.{unique}.tmp")
    try:
        with temporary.open("wb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        if isinstance(error, OSError) and error.filename is None:  # as of a write to a full disk
            error.filename = str(path)
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def final_name(name: str) -> str:
    """The name that a temporary file of `write_whole` was to get; any other name as it is."""
    temporary = _TEMPORARY.fullmatch(name)
    return temporary[1] if temporary else name
