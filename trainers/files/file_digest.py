"""The SHA-256 of a file, computed once as long as the file does not change."""

import hashlib
from functools import lru_cache
from pathlib import Path


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file; cached for its size and modification time. Raises OSError."""
    about = path.stat()
    return _digest(path.absolute(), about.st_size, about.st_mtime_ns)


@lru_cache(maxsize=1024)
def _digest(path: Path, size: int, changed: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
