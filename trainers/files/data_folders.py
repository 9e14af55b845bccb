"""The folders in which files of data are searched: those of sweep files, the current one, and the data folder."""

import os
from pathlib import Path

from trainers.errors import CorpusError
from trainers.files.cache_folder import cache_folder

DATA_VARIABLE = "LENGTHWISE_DATA"
_sweep_folders: list[Path] = []  # of this process, the latest first


def data_folder() -> Path:
    """Return the data folder, LENGTHWISE_DATA or one in the cache, made if missing. Raises CorpusError if it cannot."""
    if chosen := os.environ.get(DATA_VARIABLE):
        return Path(chosen)
    try:
        return cache_folder("data")
    except OSError as error:
        raise CorpusError(f"the data folder cannot be made: {error}; set another one in {DATA_VARIABLE}") from error


def search_first(folder: Path) -> None:
    """Search a folder for data before all others, as that of the sweep file which is read now."""
    folder = folder.resolve()
    _sweep_folders[:] = [folder, *(other for other in _sweep_folders if other != folder)]


def search_folders() -> tuple[Path, ...]:
    """Return the folders to search, in this order. Raises CorpusError if there can be no data folder."""
    return tuple(dict.fromkeys((*_sweep_folders, Path.cwd(), data_folder())))
