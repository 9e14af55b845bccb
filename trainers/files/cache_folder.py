"""Cache folders on this machine: $XDG_CACHE_HOME/lengthwise/<name>, by default ~/.cache/lengthwise/<name>."""

import os
from pathlib import Path


def find_cache_path(name: str) -> Path:
    """Return the path of a cache folder, which may be missing. Raises OSError without a home directory."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lengthwise" / name
    except RuntimeError as error:  # no HOME and no entry in the user database, as in some containers
        raise OSError(str(error)) from error


def make_cache_folder(name: str) -> Path:
    """Create a cache folder if it is missing; return its path. Raises OSError."""
    folder = find_cache_path(name)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
