"""The cache folders of this machine: $XDG_CACHE_HOME/lengthwise/<name> (default ~/.cache)."""

import os
from pathlib import Path


def cache_path(name: str) -> Path:
    """Return the path of the folder, which may be missing. Raises OSError without a home directory."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lengthwise" / name
    except RuntimeError as error:  # no HOME and no entry in the user database, as in some containers
        raise OSError(str(error)) from error


def cache_folder(name: str) -> Path:
    """Return the folder, made if missing. Raises OSError if it cannot be made, or without a home directory."""
    folder = cache_path(name)
    folder.mkdir(parents=True, exist_ok=True)
    return folder
