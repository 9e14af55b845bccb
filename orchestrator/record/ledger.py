"""The ledger: the append-only record of a sweep, one checksummed JSON line per record in `events.jsonl`.

A line is `{"seq":N,"time":T,"kind":K,"data":{...},"sha":S}` in ASCII, without spaces, keys in the order they were
given. S is the first 16 hex digits of the SHA-256 of the same line without its `sha`. JSON has no infinities and no
NaN, so they are written `{"$float":"inf"}`. Each line is flushed and fsynced before `append` returns. A line without
its newline is a write that was cut short, and never acknowledged: readers leave it out and `Ledger.open` removes it.
Everything else that is not as written, down to a single byte, is DamagedLedger.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from orchestrator.errors import DamagedLedger, LedgerError, NewerLedger, NotASweep, SweepExists
from orchestrator.record.lock import SweepLock

SCHEMA = 1
LEDGER_FILE = "events.jsonl"
_STORY = ("sweep", "configuration", "pack", "evaluation", "attempt", "pack_end", "score")
KINDS = frozenset((*_STORY, "end", "resume", "retry", "publish"))

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Record:
    """One line of the ledger: its number, when it was written (Unix seconds), what it is, and what it says."""

    seq: int
    time: float
    kind: str
    fields: dict[str, Any]


def read_records(folder: Path) -> list[Record]:
    """Return the complete records of the sweep in `folder`, without locking or changing anything.

    A last line without newline is left out: its writer died, or is still writing it. Raises NotASweep, LedgerError,
    DamagedLedger, NewerLedger.
    """
    return _parse(folder / LEDGER_FILE, _read(folder))[0]


def read_first_record(folder: Path) -> Record:
    """Return the record a ledger begins with, the sweep's own, reading no more than that. Raises as `read_records`."""
    path = Path(folder) / LEDGER_FILE
    try:
        with path.open("rb") as file:
            line = file.readline()
    except (FileNotFoundError, NotADirectoryError):
        raise NotASweep(f"{folder} holds no sweep: there is no {LEDGER_FILE} in it") from None
    except OSError as error:
        raise LedgerError(f"{path}: cannot be read: {error.strerror}") from error
    return _parse(path, line)[0][0]


class Ledger:
    """The one writer of a sweep's ledger; made by `create` or `open`, holds the lock until `close`."""

    def __init__(self, path: Path, lock: SweepLock, descriptor: int, size: int, seq: int, notice: str | None) -> None:
        self.path, self.folder = path, path.parent
        self.notice = notice  # what `open` had to drop, in words; None when the ledger ended cleanly
        self._lock, self._descriptor, self._size, self._seq = lock, descriptor, size, seq
        self._writing = threading.Lock()
        self._broken: str | None = None

    @classmethod
    def create(cls, folder: Path, first_fields: Mapping[str, Any]) -> Self:
        """Begin the sweep in `folder`: lock it and write record 0, kind `sweep`, with the schema version.

        The ledger appears whole, with its first record, or not at all. Raises SweepExists, SweepLocked, LedgerError.
        """
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise LedgerError(f"{folder}: cannot be made: {error.strerror}") from error
        lock = SweepLock(folder)
        lock.acquire()
        path, temporary = folder / LEDGER_FILE, folder / f"{LEDGER_FILE}.new"
        try:
            if path.exists():
                raise SweepExists(f"{folder} already holds a sweep; resume it, or choose another name")
            line = encode(Record(0, time.time(), "sweep", {**first_fields, "schema": SCHEMA}))
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC
                descriptor = os.open(temporary, flags, 0o644)
                try:
                    _write_all(descriptor, line)
                    temporary.rename(path)
                    _fsync_folder(folder)
                    _fsync_folder(folder.parent)
                except BaseException:
                    os.close(descriptor)
                    temporary.unlink(missing_ok=True)
                    path.unlink(missing_ok=True)
                    raise
            except OSError as error:
                raise LedgerError(f"{path}: cannot be written: {error.strerror}") from error
            return cls(path, lock, descriptor, len(line), 1, None)
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Lock the sweep in `folder`, check every line, remove a torn last one (see `notice`), be ready to append.

        Raises NotASweep, SweepLocked, DamagedLedger, NewerLedger, LedgerError.
        """
        folder = Path(folder)
        path = folder / LEDGER_FILE
        if not path.is_file():
            raise NotASweep(f"{folder} holds no sweep: there is no {LEDGER_FILE} in it")
        lock = SweepLock(folder)
        lock.acquire()
        try:
            content = _read(folder)
            records, size = _parse(path, content)
            notice = None
            try:
                descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
                if size < len(content):
                    notice = f"{path}:{len(records) + 1}: dropped a torn last line of {len(content) - size} bytes"
                    _log.warning(notice)
                    os.ftruncate(descriptor, size)
                    os.fsync(descriptor)
            except OSError as error:
                raise LedgerError(f"{path}: cannot be written: {error.strerror}") from error
            return cls(path, lock, descriptor, size, len(records), notice)
        except BaseException:
            lock.release()
            raise

    def append(self, kind: str, /, **fields: Any) -> Record:
        """Write one record and wait until it is on disk; returns it as a reader will see it.

        `fields` are plain values, lists and dictionaries with string keys; numpy numbers and arrays become plain ones.
        Raises LedgerError when it cannot be written (the ledger then ends as before), ValueError for an unknown kind.
        """
        if kind not in KINDS:
            raise ValueError(f"unknown kind of record {kind!r}; known: {', '.join(sorted(KINDS))}")
        with self._writing:
            if self._broken is not None:
                raise LedgerError(f"{self.path}: {self._broken}; nothing more can be recorded")
            line = encode(Record(self._seq, time.time(), kind, fields))
            try:
                _write_all(self._descriptor, line)
            except OSError as error:
                self._undo(error)
                raise LedgerError(f"{self.path}: cannot be written: {error.strerror}") from error
            self._size += len(line)
            self._seq += 1
        return decode(line[:-1])

    def close(self) -> None:
        """Close the file and free the lock; doing it twice is harmless."""
        with self._writing:
            if self._broken != "closed":
                self._broken = "closed"
                os.close(self._descriptor)
                self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _undo(self, error: OSError) -> None:
        """Cut a partly written line off; if even that fails the ledger takes no more records."""
        try:
            os.ftruncate(self._descriptor, self._size)
            os.fsync(self._descriptor)
        except OSError as second:
            self._broken = f"a failed write ({error.strerror}) could not be undone ({second.strerror})"


def encode(record: Record) -> bytes:
    """Return the line of a record, newline included; raises TypeError for a value that JSON cannot give back."""
    body = json.dumps(
        {"seq": record.seq, "time": record.time, "kind": record.kind, "data": _plain(record.fields, record.kind)},
        separators=(",", ":"),
        allow_nan=False,
    ).encode("ascii")
    return body[:-1] + b',"sha":"' + _checksum(body) + b'"}\n'


def decode(line: bytes) -> Record:
    """Return the record of a line without its newline; raises ValueError with what is wrong with it."""
    body, mark, end = line[:-26] + b"}", line[-26:-18], line[-18:]
    if mark != b',"sha":"' or end != _checksum(body) + b'"}':
        raise ValueError("the line does not match its checksum")
    value = json.loads(body, object_hook=_restore)
    return Record(value["seq"], value["time"], value["kind"], value["data"])


def _checksum(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:16].encode("ascii")


def _plain(value: Any, where: str) -> Any:
    """Return `value` as strict JSON can hold it and give it back."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, list | tuple):
        return [_plain(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str) or key == "$float":
                raise TypeError(f"{where}: {key!r} cannot be a key in the ledger")
        return {key: _plain(item, f"{where}.{key}") for key, item in value.items()}
    raise TypeError(f"{where}: a {type(value).__name__} cannot be written to the ledger")


def _restore(value: dict[str, Any]) -> Any:
    return float(value["$float"]) if value.keys() == {"$float"} else value


def _read(folder: Path) -> bytes:
    path = Path(folder) / LEDGER_FILE
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise NotASweep(f"{folder} holds no sweep: there is no {LEDGER_FILE} in it") from None
    except OSError as error:
        raise LedgerError(f"{path}: cannot be read: {error.strerror}") from error


def _parse(path: Path, content: bytes) -> tuple[list[Record], int]:
    """Return the records of all complete lines and the bytes they take."""
    *lines, torn = content.split(b"\n")
    records: list[Record] = []
    for number, line in enumerate(lines, start=1):
        try:
            record = decode(line)
        except ValueError as error:
            raise DamagedLedger(path, number, str(error)) from None
        if record.seq != number - 1:
            raise DamagedLedger(path, number, f"record {record.seq} stands where record {number - 1} belongs")
        if number == 1:
            _check_schema(path, record)
        records.append(record)
    if not records:
        raise DamagedLedger(path, 1, "the first record is missing")
    if _goes_on_after_a_record(torn):
        raise DamagedLedger(path, len(lines) + 1, "the line does not end where its record does")
    return records, len(content) - len(torn)


def _goes_on_after_a_record(torn: bytes) -> bool:
    """Tell a lost newline from a write cut short: no write puts anything but a newline after a whole record."""
    for end in re.finditer(rb',"sha":"[0-9a-f]{16}"}', torn[:-1]):
        try:
            decode(torn[: end.end()])
        except ValueError:
            continue
        return True
    return False


def _check_schema(path: Path, first: Record) -> None:
    schema = first.fields.get("schema")
    if first.kind != "sweep" or not isinstance(schema, int):
        raise DamagedLedger(path, 1, "the first record is not that of a sweep")
    if schema > SCHEMA:
        raise NewerLedger(f"{path}: has ledger schema {schema}; this version of lengthwise reads up to {SCHEMA}")


def _write_all(descriptor: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    os.fsync(descriptor)


def _fsync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
