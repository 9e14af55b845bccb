"""Running out of space: the trouble of a sweep and not of a pack, told apart from everything else that can go wrong."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.errors import OutOfSpace

FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))  # a full disk, a quota, a limit on the size of files


def out_of_space(error: BaseException | None, folder: Path) -> OutOfSpace | None:
    """What is to be said of an error that a lack of space has caused, None of any other.

    `folder` is where was written, if the error does not say it.
    """
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, OutOfSpace):
            return error
        if isinstance(error, OSError) and error.errno in FULL:
            return OutOfSpace(_said(error, Path(os.fsdecode(error.filename)) if error.filename else folder))
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


@contextmanager
def space_told_apart(folder: Path) -> Iterator[None]:
    """Raise OutOfSpace in the place of any error that a lack of space has caused."""
    try:
        yield
    except Exception as error:
        if (full := out_of_space(error, folder)) is not None:
            raise full from error
        raise


def _said(error: OSError, path: Path) -> str:
    there = path.absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    system = there
    while not system.is_mount():
        system = system.parent
    free = shutil.disk_usage(there).free
    return f"{path}: {error.strerror}; the file system at {system} has {free / 2**20:,.0f} MiB free"
