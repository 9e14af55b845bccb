"""The objects below an address, through fsspec. The only module that imports it, and only for addresses.

A failed request is repeated by itself, and several objects are sent, read or deleted at once: some storages answer a
part of all requests with errors, or late.
"""

import copy
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, Self, TypeVar

from orchestrator.addresses import address_of
from orchestrator.errors import StorageError, StorageRefused
from trainers.files.atomic_file import write_atomic

PATIENCE = 60.0  # seconds for which a failed request is repeated
LONGEST_PAUSE = 8.0  # seconds between two attempts
SILENT = 5.0  # seconds of failures after which they are logged
_AT_ONCE = 16
_Answer = TypeVar("_Answer")
_log = logging.getLogger(__name__)


class ObjectStore:
    """The objects below an address, by their names relative to it. All methods raise StorageError, StorageRefused.

    A request that ends in StorageError, such as an error of the server, is repeated for `patience` seconds.
    """

    def __init__(self, address: str) -> None:
        self.address, self.patience = address, PATIENCE
        options = {"auto_mkdir": True} if address.startswith("file:") else {}
        self._files, self._root = self._ask(_file_system, address, options)

    @classmethod
    def for_copy(cls, folder: Path) -> "ObjectStore":
        """Return the objects of which a folder is the local copy."""
        address = address_of(folder)
        assert address is not None
        return cls(address)

    def with_patience(self, seconds: float) -> Self:
        """Return the same objects, with failed requests repeated for `seconds`."""
        other = copy.copy(self)
        other.patience = seconds
        return other

    def sizes(self, below: str = "") -> dict[str, int]:
        """Return the bytes of every object, or of those below a folder, by name and in order."""
        files = self._ask(self._files.find, self._path(below), detail=True)
        names = {str(PurePosixPath(path).relative_to(self._root)): files[path]["size"] for path in sorted(files)}
        return {name: size for name, size in names.items() if ".." not in PurePosixPath(name).parts}

    def folders(self) -> list[str]:
        """Return the names of the folders just below the address, none if nothing is there yet."""
        try:
            entries = self._ask(self._files.ls, self._root, detail=True)
        except StorageRefused:
            if self.sizes():  # which raises where the address cannot be used
                raise
            return []
        return sorted(PurePosixPath(entry["name"]).name for entry in entries if entry["type"] == "directory")

    def has(self, name: str) -> bool:
        """Return whether there is an object of this name."""
        return bool(self._ask(self._files.exists, self._path(name)))

    def read(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of objects by name."""
        names = list(names)
        # not `cat` of all: it takes "[", "*" and "?" in names for patterns
        contents = _at_once(lambda name: self._ask(self._files.cat_file, self._path(name)), names)
        return dict(zip(names, contents, strict=True))

    def write(self, name: str, content: bytes) -> None:
        """Write an object, in the place of one of this name."""
        self._ask(self._files.pipe_file, self._path(name), content)

    def send(self, folder: Path, names: Iterable[str]) -> None:
        """Write objects from the files of the same names in a folder."""
        _at_once(lambda name: self._ask(self._files.put_file, str(folder / name), self._path(name)), names)

    def create(self, name: str, content: bytes) -> bytes:
        """Create an object unless one of this name exists; return the content that is there now, ours or another's."""

        def create_or_find() -> bool:
            try:
                self._ask_once(self._files.pipe_file, self._path(name), content, mode="create")
            except FileExistsError:  # also where our own request was repeated because its answer was lost
                return False
            except StorageError:  # servers differ in how they say that there is one
                if not self.has(name):
                    raise
                return False
            return True

        return content if self._repeat(create_or_find) else self.read([name])[name]

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects, in any order; those that are not there are left out."""

        def remove(path: str) -> None:
            with suppress(FileNotFoundError):
                self._files.rm_file(path)

        _at_once(lambda name: self._ask(remove, self._path(name)), names)

    def fetch(self, folder: Path, names: Iterable[str]) -> None:
        """Write objects to the files of the same names in a folder, each one complete or not at all."""
        waiting = list(names)
        for start in range(0, len(waiting), _AT_ONCE):
            for name, content in self.read(waiting[start : start + _AT_ONCE]).items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                write_atomic(folder / name, [content])

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _ask(self, call: Callable[..., _Answer], *arguments: Any, **keywords: Any) -> _Answer:
        return self._repeat(lambda: self._ask_once(call, *arguments, **keywords))

    def _repeat(self, request: Callable[[], _Answer]) -> _Answer:
        """Return the result of a request, which is repeated after StorageError; long waiting is logged once."""
        began, pause, logged = time.monotonic(), 0.5, False
        while True:
            try:
                return request()
            except StorageError as error:
                waited = time.monotonic() - began
                if waited + pause > self.patience:
                    raise
                if waited > SILENT and not logged:
                    logged = True
                    _log.warning(f"{error}; trying again for up to {self.patience:g} s")
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _ask_once(self, call: Callable[..., _Answer], *arguments: Any, **keywords: Any) -> _Answer:
        """Return the result of a call of fsspec; raises its errors, which differ by file system, as ours."""
        try:
            return call(*arguments, **keywords)
        except FileExistsError:
            raise
        except ImportError as error:
            hint = ": pip install 'lengthwise[s3]'" if self.address.startswith("s3:") else ""
            raise StorageRefused(f"{self.address} cannot be used: {error}{hint}") from error
        except (PermissionError, FileNotFoundError, ValueError) as error:
            raise StorageRefused(f"{self.address} cannot be used: {_reason(error)}") from error
        except Exception as error:
            refused = StorageRefused if "Credentials" in type(error).__name__ else StorageError
            raise refused(f"{self.address} cannot be used: {_reason(error)}") from error


def fetch_missing(folder: Path) -> None:
    """Download the files that a folder lacks; does nothing for a folder without an address."""
    if address_of(folder) is not None:
        store = ObjectStore.for_copy(folder)
        store.fetch(folder, [name for name in store.sizes() if not (folder / name).exists()])


def fetch_file(path: Path) -> None:
    """Download a missing file if its address has it; otherwise reading the file will report that it is missing."""
    if not path.exists() and address_of(path) is not None:
        with suppress(StorageRefused):
            ObjectStore.for_copy(path.parent).fetch(path.parent, [path.name])


def _at_once(request: Callable[[str], _Answer], names: Iterable[str]) -> list[_Answer]:
    """Return the results of a request for each name, made by several threads; raises the first error."""
    names = list(names)
    if len(names) < 2:
        return list(map(request, names))
    with ThreadPoolExecutor(min(_AT_ONCE, len(names))) as threads:
        return list(threads.map(request, names))


def _file_system(address: str, options: Mapping[str, Any]) -> Any:
    import fsspec

    return fsspec.url_to_fs(address, use_listings_cache=False, **options)


def _reason(error: BaseException) -> str:
    return f"{error or type(error).__name__}".rstrip(".")
