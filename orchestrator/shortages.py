"""Running out of space or memory: the trouble of a sweep and not of a pack, told apart from other errors."""

import errno
import os
import resource
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


def out_of_memory(error: BaseException) -> str | None:
    """What is to be said of an error of this process that a lack of memory has caused, None of any other."""
    words = ("start new thread", "failed to map segment", "allocate memory")  # of threads, libraries and torch
    by_name = isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM
    if not by_name and not any(word in str(error) for word in words):
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    known = "" if limit == resource.RLIM_INFINITY else f", which may use {limit / 2**30:.1f} GiB (ulimit -v)"
    said = (str(error).strip().splitlines() or [""])[-1]
    return f"memory ran out in this process{known}: {type(error).__name__}: {said}; it needs 2 GiB and more"


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
