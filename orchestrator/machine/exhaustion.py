"""Detect errors caused by full disks or missing memory, which concern the whole sweep, not a single pack."""

import errno
import os
import resource
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from orchestrator.errors import OutOfSpace
from trainers.errors import describe_briefly

# A full disk, a quota, or a limit on the size of files.
DISK_FULL_ERRNOS = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
TORCH_CPU_PHRASE = "allocate memory"  # in torch's RuntimeError of an allocation on the CPU
# Parts of messages of threads and of the dynamic loader.
OUT_OF_MEMORY_PHRASES = ("start new thread", "failed to map segment", TORCH_CPU_PHRASE)


def find_out_of_space(error: BaseException | None, folder: Path) -> OutOfSpace | None:
    """Return an OutOfSpace error if a full disk has caused `error`, else None.

    `folder` is the folder that was written to, if the error does not name a file.
    """
    seen: set[int] = set()  # chains of causes may form a cycle
    while error is not None and id(error) not in seen:
        if isinstance(error, OutOfSpace):
            return error
        if isinstance(error, OSError) and error.errno in DISK_FULL_ERRNOS:
            return OutOfSpace(
                _describe_full_disk(error, Path(os.fsdecode(error.filename)) if error.filename else folder)
            )
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


def is_failed_allocation(error: BaseException) -> bool:
    """Return whether an allocation of Python, or of torch on the CPU or a GPU, has failed."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    return isinstance(error, RuntimeError) and TORCH_CPU_PHRASE in str(error)


def describe_out_of_memory(error: BaseException) -> str | None:
    """Return a message if missing memory has caused `error`, else None."""
    is_known_type = is_failed_allocation(error) or getattr(error, "errno", None) == errno.ENOMEM
    if not is_known_type and not any(phrase in str(error) for phrase in OUT_OF_MEMORY_PHRASES):
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    limit_note = "" if limit == resource.RLIM_INFINITY else f", which may use {limit / 2**30:.1f} GiB (ulimit -v)"
    cause = describe_briefly(error, line=-1)
    return f"out of memory in this process{limit_note}: {cause}; lengthwise needs at least 2 GiB"


@contextmanager
def convert_full_disk_errors(folder: Path) -> Iterator[None]:
    """Convert any error that a full disk caused to OutOfSpace."""
    try:
        yield
    except Exception as error:
        if (out_of_space := find_out_of_space(error, folder)) is not None:
            raise out_of_space from error
        raise


def _describe_full_disk(error: OSError, path: Path) -> str:
    """Return a message with the file system of a path, which may not exist, and its free space."""
    existing = path.absolute()
    while not existing.exists() and existing != existing.parent:
        existing = existing.parent

    # Users know a file system by its mount point.
    mount_point = existing
    while not mount_point.is_mount():
        mount_point = mount_point.parent
    free = shutil.disk_usage(existing).free
    return f"{path}: {error.strerror}; the file system at {mount_point} has {free / 2**20:,.0f} MiB free"
