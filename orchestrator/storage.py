"""The objects below an address, through fsspec. The only module that imports it, and only for addresses."""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from orchestrator.addresses import address_of
from orchestrator.errors import StorageError, StorageRefused
from trainers.files.atomic_file import write_atomic

PATIENCE = 60.0  # seconds for which a failed request is repeated where somebody waits for it
_AT_ONCE = 16
_Answer = TypeVar("_Answer")


class Store:
    """The objects below an address, by their names relative to it. All methods raise StorageError, StorageRefused."""

    def __init__(self, address: str) -> None:
        self.address = address
        more = {"auto_mkdir": True} if address.startswith("file:") else {}
        self._files, self._root = self._ask(_file_system, address, more)

    @classmethod
    def for_copy(cls, folder: Path) -> "Store":
        """Return the objects of which a folder is the local copy."""
        address = address_of(folder)
        assert address is not None
        return cls(address)

    def sizes(self, below: str = "") -> dict[str, int]:
        """Return the bytes of every object, or of those below a folder, by name and in order."""
        found = self._ask(self._files.find, self._path(below), detail=True)
        names = {str(PurePosixPath(path).relative_to(self._root)): found[path]["size"] for path in sorted(found)}
        return {name: size for name, size in names.items() if ".." not in PurePosixPath(name).parts}

    def folders(self) -> list[str]:
        """Return the names of the folders just below the address, none if nothing is there yet."""
        try:
            found = self._ask(self._files.ls, self._root, detail=True)
        except StorageRefused:
            if self.sizes():  # which raises where the address cannot be used
                raise
            return []
        return sorted(PurePosixPath(one["name"]).name for one in found if one["type"] == "directory")

    def has(self, name: str) -> bool:
        """Return whether there is an object of this name."""
        return bool(self._ask(self._files.exists, self._path(name)))

    def read(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of objects by name."""
        names = list(names)
        with ThreadPoolExecutor(_AT_ONCE) as readers:
            # not `cat` of all: it takes "[", "*" and "?" in names for patterns
            contents = readers.map(lambda name: self._ask(self._files.cat_file, self._path(name)), names)
            return dict(zip(names, contents, strict=True))

    def write(self, name: str, content: bytes) -> None:
        """Write an object, in the place of one of this name."""
        self._ask(self._files.pipe_file, self._path(name), content)

    def send(self, folder: Path, name: str) -> None:
        """Write an object from the file of the same name in a folder."""
        self._ask(self._files.put_file, str(folder / name), self._path(name))

    def create(self, name: str, content: bytes) -> bytes:
        """Create an object unless one of this name exists; return the content that is there now, ours or another's."""
        try:
            self._ask(self._files.pipe_file, self._path(name), content, mode="create")
        except FileExistsError:  # also where our own request was repeated because its answer was lost
            pass
        except StorageError:  # servers differ in how they say that there is one
            if not self.has(name):
                raise
        else:
            return content
        return self.read([name])[name]

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; those that are not there are left out."""
        for name in names:
            if self.has(name):
                self._ask(self._files.rm_file, self._path(name))

    def fetch(self, folder: Path, names: Iterable[str]) -> None:
        """Write objects to the files of the same names in a folder, each one complete or not at all."""
        waiting = list(names)
        for start in range(0, len(waiting), _AT_ONCE):
            for name, content in self.read(waiting[start : start + _AT_ONCE]).items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                write_atomic(folder / name, [content])

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}" if name else self._root

    def _ask(self, call: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        """Return the result of a call of fsspec; raises its errors, which differ by file system, as ours."""
        try:
            return call(*arguments, **more)
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
    """Download what a folder lacks of its address; does nothing for a folder without an address."""
    if address_of(folder) is not None:
        store = Store.for_copy(folder)
        store.fetch(folder, [name for name in store.sizes() if not (folder / name).exists()])


def fetch_file(path: Path) -> None:
    """Download a missing file if its address has it; otherwise reading the file will report that it is missing."""
    if not path.exists() and address_of(path) is not None:
        with suppress(StorageRefused):
            Store.for_copy(path.parent).fetch(path.parent, [path.name])


def patiently(call: Callable[..., _Answer], *arguments: Any, seconds: float = PATIENCE, **more: Any) -> _Answer:
    """Return the result of a call, which is retried after storage errors for up to `seconds`."""
    end, pause = time.monotonic() + seconds, 0.5
    while True:
        try:
            return call(*arguments, **more)
        except (StorageError, StorageRefused):
            if time.monotonic() + pause > end:
                raise
        time.sleep(pause)
        pause *= 2


def _file_system(address: str, more: Mapping[str, Any]) -> Any:
    import fsspec

    return fsspec.url_to_fs(address, use_listings_cache=False, **more)


def _reason(error: BaseException) -> str:
    return f"{error or type(error).__name__}".rstrip(".")
