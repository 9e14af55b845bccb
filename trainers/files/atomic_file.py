"""Atomic writes: a file appears complete or not at all."""

import contextlib
import os
import re
import threading
from collections.abc import Iterable
from pathlib import Path

_TEMPORARY = re.compile(r"\.(.+)\.\d+-\d+\.tmp")


def write_atomic(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write `pieces` to a temporary file beside `path`, sync it to disk, and rename it.

    The folder must exist. Several processes and threads may write the same file at once; the last one wins. Raises
    OSError and then leaves no temporary file; a killed process leaves `.<name>.<pid>-<thread>.tmp`.
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
        if isinstance(error, OSError) and error.filename is None:  # for example on a full disk
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
    """Return the final name of a temporary file of `write_atomic`; any other name unchanged."""
    temporary = _TEMPORARY.fullmatch(name)
    return temporary[1] if temporary else name
