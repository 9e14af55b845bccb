"""The SHA-256 of a file, cached until the file changes."""

import hashlib
from functools import lru_cache
from pathlib import Path


def compute_file_digest(path: Path) -> str:
    """Return the SHA-256 of a file; cached for its size and modification time. Raises OSError."""
    status = path.stat()
    return _hash_file(path.absolute(), status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=1024)
def _hash_file(path: Path, size: int, modified_ns: int) -> str:
    """Return the SHA-256 of a file; size and time are only keys of the cache."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
