"""Read and write the objects below an address. The only module that imports fsspec.

Failed requests are retried, and objects are sent, read and deleted by several threads, because some object stores
answer part of all requests late or with errors.
"""

import copy
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, Self, TypeVar

from orchestrator.addresses import find_address
from orchestrator.errors import StorageError, StorageRefused
from trainers.files.atomic_file import write_atomic

RETRY_SECONDS = 60.0  # after which a failed request is no longer retried
MAX_PAUSE_SECONDS = 8.0  # between two attempts
QUIET_SECONDS = 5.0  # before failures are logged, because short ones are common
_THREADS = 16
_Result = TypeVar("_Result")
_log = logging.getLogger(__name__)


class ObjectStore:
    """The objects below an address, named relative to it. All methods raise StorageError and StorageRefused.

    A request that fails with StorageError, such as an error of the server, is retried for `retry_seconds`.
    """

    def __init__(self, address: str) -> None:
        self.address, self.retry_seconds = address, RETRY_SECONDS
        options = {"auto_mkdir": True} if address.startswith("file:") else {}
        self._files, self._root = self._request(_open_file_system, address, options)

    @classmethod
    def from_local_copy(cls, folder: Path) -> "ObjectStore":
        """Return the object store whose local copy is `folder`."""
        address = find_address(folder)
        assert address is not None
        return cls(address)

    def with_retry_seconds(self, seconds: float) -> Self:
        """Return the same object store, with failed requests retried for `seconds`."""
        store = copy.copy(self)
        store.retry_seconds = seconds
        return store

    def list_sizes(self, below: str = "") -> dict[str, int]:
        """Return the size in bytes of every object, or of those below a folder, sorted by name."""
        files = self._request(self._files.find, self._path(below), detail=True)
        names = {str(PurePosixPath(path).relative_to(self._root)): files[path]["size"] for path in sorted(files)}
        return {name: size for name, size in names.items() if ".." not in PurePosixPath(name).parts}

    def list_folders(self) -> list[str]:
        """Return the names of the folders directly below the address; empty if the address does not exist yet."""
        try:
            entries = self._request(self._files.ls, self._root, detail=True)
        except StorageRefused:
            if self.list_sizes():  # raises if the address cannot be used
                raise
            return []
        return sorted(PurePosixPath(entry["name"]).name for entry in entries if entry["type"] == "directory")

    def exists(self, name: str) -> bool:
        """Return whether an object of this name exists."""
        return bool(self._request(self._files.exists, self._path(name)))

    def read(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of objects by name."""
        # `cat` would read "[", "*" and "?" in names as patterns.
        names = list(names)
        contents = _run_in_threads(lambda name: self._request(self._files.cat_file, self._path(name)), names)
        return dict(zip(names, contents, strict=True))

    def write(self, name: str, content: bytes) -> None:
        """Write an object; replaces an existing one."""
        self._request(self._files.pipe_file, self._path(name), content)

    def send(self, folder: Path, names: Iterable[str]) -> None:
        """Write objects from the files of the same names in a folder."""
        _run_in_threads(lambda name: self._request(self._files.put_file, str(folder / name), self._path(name)), names)

    def create(self, name: str, content: bytes) -> bytes:
        """Create an object unless it exists; return the content that is stored now, ours or another's."""

        def create_or_find() -> bool:
            try:
                self._request_once(self._files.pipe_file, self._path(name), content, mode="create")
            except FileExistsError:  # also if our own request was retried after a lost answer
                return False
            except StorageError:  # servers differ in how they report an existing object
                if not self.exists(name):
                    raise
                return False
            return True

        return content if self._retry(create_or_find) else self.read([name])[name]

    def delete(self, names: Iterable[str]) -> None:
        """Delete objects; missing ones are ignored."""

        def remove(path: str) -> None:
            with suppress(FileNotFoundError):
                self._files.rm_file(path)

        _run_in_threads(lambda name: self._request(remove, self._path(name)), names)

    def fetch(self, folder: Path, names: Iterable[str]) -> None:
        """Download objects to files of the same names in a folder, each atomically."""
        # Only a few objects at a time, because all of them might not fit into memory.
        names = list(names)
        for start in range(0, len(names), _THREADS):
            for name, content in self.read(names[start : start + _THREADS]).items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                write_atomic(folder / name, [content])

    def _path(self, name: str) -> str:
        """Return the path of an object in its file system; the root for an empty name."""
        return f"{self._root}/{name}" if name else self._root

    def _request(self, call: Callable[..., _Result], *arguments: Any, **keywords: Any) -> _Result:
        """Return the result of an fsspec call, retried after StorageError."""
        return self._retry(lambda: self._request_once(call, *arguments, **keywords))

    def _retry(self, request: Callable[[], _Result]) -> _Result:
        """Return the result of a request, retried after StorageError; log a long wait once."""
        start, pause, is_logged = time.monotonic(), 0.5, False
        while True:
            try:
                return request()
            except StorageError as error:
                waited = time.monotonic() - start
                if waited + pause > self.retry_seconds:
                    raise
                if waited > QUIET_SECONDS and not is_logged:
                    is_logged = True
                    _log.warning(f"{error}; retrying for up to {self.retry_seconds:g} s")
            time.sleep(pause)
            pause = min(2 * pause, MAX_PAUSE_SECONDS)

    def _request_once(self, call: Callable[..., _Result], *arguments: Any, **keywords: Any) -> _Result:
        """Return the result of an fsspec call; its errors, which differ by file system, are raised as ours."""
        try:
            return call(*arguments, **keywords)
        except FileExistsError:
            raise
        except ImportError as error:
            hint = ": pip install 'lengthwise[s3]'" if self.address.startswith("s3:") else ""
            raise StorageRefused(f"{self.address} cannot be used: {error}{hint}") from error
        except (PermissionError, FileNotFoundError, ValueError) as error:
            raise StorageRefused(f"{self.address} cannot be used: {_describe_reason(error)}") from error
        except Exception as error:
            error_class = StorageRefused if "Credentials" in type(error).__name__ else StorageError
            raise error_class(f"{self.address} cannot be used: {_describe_reason(error)}") from error


def fetch_missing(folder: Path) -> None:
    """Download the files that a local copy lacks; does nothing for other folders."""
    if find_address(folder) is not None:
        store = ObjectStore.from_local_copy(folder)
        store.fetch(folder, [name for name in store.list_sizes() if not (folder / name).exists()])


def fetch_file(path: Path) -> None:
    """Download a missing file if its address has it; otherwise reading the file reports the error."""
    if not path.exists() and find_address(path) is not None:
        with suppress(StorageRefused):
            ObjectStore.from_local_copy(path.parent).fetch(path.parent, [path.name])


def _run_in_threads(request: Callable[[str], _Result], names: Iterable[str]) -> list[_Result]:
    """Return the results of a request for each name, run in threads; raises the first error."""
    names = list(names)
    if len(names) < 2:
        return list(map(request, names))
    with ThreadPoolExecutor(min(_THREADS, len(names))) as threads:
        return list(threads.map(request, names))


def _open_file_system(address: str, options: Mapping[str, Any]) -> Any:
    """Return the fsspec file system of an address and the path in it."""
    import fsspec

    return fsspec.url_to_fs(address, use_listings_cache=False, **options)


def _describe_reason(error: BaseException) -> str:
    """Return the message of an error without a final dot, or its type if it has none."""
    return (str(error) or type(error).__name__).rstrip(".")
