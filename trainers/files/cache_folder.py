"""Where this machine keeps what is compiled once: below $XDG_CACHE_HOME/lengthwise (~/.cache without the variable)."""

import os
from pathlib import Path


def cache_folder(name: str) -> Path:
    """A folder that is there. Raises OSError where there is none, or no home to put it in."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lengthwise" / name
    except RuntimeError as error:  # a user without an entry among the users, as in a container, and without HOME
        raise OSError(str(error)) from error
    folder.mkdir(parents=True, exist_ok=True)
    return folder
