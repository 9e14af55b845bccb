"""The ledger: the append-only log of a sweep and its only writer; `records` defines its lines.

Lines are flushed and fsynced before `append` returns. A last line without a newline is an incomplete write that was
never acknowledged: `Ledger.open` removes it.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from orchestrator.errors import LedgerError, SweepExists, TakenLedger, UserError, convert_write_errors
from orchestrator.record.ledger.folders import LEDGER_FILE, refuse_unexpected_files, refuse_unexpected_folders
from orchestrator.record.ledger.lock import SweepLock
from orchestrator.record.ledger.record_kinds import RECORD_KINDS
from orchestrator.record.ledger.records import (
    SCHEMA,
    Record,
    decode_record,
    encode_record,
    parse_records,
    read_ledger_bytes,
)
from orchestrator.text.redaction import redact_fields
from trainers.files.atomic_file import write_atomic

_log = logging.getLogger(__name__)


class Ledger:
    """The only writer of a sweep's ledger, made by `create` or `open`; it holds the lock until `close`."""

    def __init__(self, folder: Path, lock: SweepLock) -> None:
        """Check every line of the ledger in `folder`, whose `lock` is held, and remove a torn last line."""
        self.path = folder / LEDGER_FILE
        self.folder = folder
        self.notice: str | None = None  # sentence about a dropped line; None if the ledger ended cleanly
        self.problem: str | None = None  # sentence about a failure in `close` (orchestrator.mirror)
        self._lock = lock
        self._write_lock = threading.Lock()
        self._closed_reason: str | None = None

        # Check all lines before anything is written.
        content = read_ledger_bytes(folder)
        records, self._size = parse_records(self.path, content)
        self._seq = len(records)
        with convert_write_errors(self.path, LedgerError):
            self._descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
            if torn := len(content) - self._size:
                self.notice = f"{self.path}:{self._seq + 1}: dropped a torn last line of {torn} bytes"
                _log.warning(self.notice)
                os.ftruncate(self._descriptor, self._size)
                os.fsync(self._descriptor)

    @classmethod
    def create(cls, folder: Path, first_fields: Mapping[str, Any]) -> Self:
        """Create the ledger in `folder`: take the lock and write record 0, kind `sweep`; `schema` is SCHEMA by default.

        The ledger appears with its first record or not at all. Raises SweepExists, SweepLocked, UnexpectedEntry,
        LedgerError, and UserError for a path that leads through a file.
        """
        # The folder may exist already, made by somebody else with links that lead out of it.
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except (NotADirectoryError, FileExistsError) as error:
            raise UserError(f"{folder}: cannot be created: part of the path is a file") from error
        except OSError as error:
            raise LedgerError(f"{folder}: cannot be created: {error.strerror}") from error
        refuse_unexpected_files(folder)
        refuse_unexpected_folders(folder)

        # The lock is kept only if everything succeeds: a failed command must not block the folder.
        with ExitStack() as exit_stack:
            lock = exit_stack.enter_context(SweepLock(folder))
            path = folder / LEDGER_FILE
            if path.exists():
                raise SweepExists(f"{folder} already holds a sweep; resume it, or choose another name")
            fields = {**first_fields, "schema": first_fields.get("schema", SCHEMA)}
            line = encode_record(Record(0, time.time(), "sweep", redact_fields(fields)))
            try:
                write_atomic(path, [line])
                _fsync_folder(folder.parent)
            except OSError as error:
                path.unlink(missing_ok=True)
                raise LedgerError(f"{path}: cannot be written: {error.strerror}") from error
            ledger = cls(folder, lock)
            exit_stack.pop_all()
            return ledger

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Lock the sweep in `folder`, check every line and remove a torn last line (see `notice`).

        Raises NotASweep, SweepLocked, UnexpectedEntry, DamagedLedger, NewerLedger, LedgerError.
        """
        read_ledger_bytes(folder)  # raises for a folder without a ledger, before a lock file is made in it
        with ExitStack() as exit_stack:
            ledger = cls(folder, exit_stack.enter_context(SweepLock(folder)))
            exit_stack.pop_all()  # `close` frees the lock
            return ledger

    def append(self, kind: str, /, **fields: Any) -> Record:
        """Write one record, wait until it is on disk, and return it as a reader will see it.

        `fields` are plain values, lists and dictionaries with string keys; numpy numbers and arrays become plain ones,
        and passwords in messages are masked.
        Raises LedgerError when it cannot be written (the ledger then ends as before), TakenLedger when another process
        has written since, ValueError for an unknown kind.
        """
        (record,) = self.append_all(kind, [fields])
        return record

    def append_all(self, kind: str, entries: Iterable[Mapping[str, Any]]) -> list[Record]:
        """Write a record of one kind for each of `entries`, as `append` does, with a single fsync.

        After a crash the ledger has the first few records, or all.
        """
        if kind not in RECORD_KINDS:
            raise ValueError(f"unknown kind of record {kind!r}; known: {', '.join(sorted(RECORD_KINDS))}")
        with self._write_lock:
            if self._closed_reason is not None:
                raise LedgerError(f"{self.path}: {self._closed_reason}; nothing more can be recorded")
            self._refuse_other_writers()

            # Nothing is counted until all lines are on disk; after a failed write the file ends as before.
            lines = [
                encode_record(Record(seq, time.time(), kind, redact_fields(fields)))
                for seq, fields in enumerate(entries, start=self._seq)
            ]
            try:
                _write_all(self._descriptor, b"".join(lines))
            except OSError as error:
                self._undo_write(error)
                raise LedgerError(f"{self.path}: cannot be written: {error.strerror}") from error
            self._size += sum(map(len, lines))
            self._seq += len(lines)
        return [decode_record(line[:-1]) for line in lines]

    def close(self) -> None:
        """Close the file and release the lock; does nothing the second time."""
        with self._write_lock:
            if self._closed_reason != "closed":
                self._closed_reason = "closed"
                os.close(self._descriptor)
                self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _refuse_other_writers(self) -> None:
        """Raise TakenLedger unless the file ends where the last record of this writer ended.

        Locks of some network file systems do not work. The file is opened anew, because only that shows the
        records of other writers there.
        """
        with convert_write_errors(self.path, LedgerError):
            descriptor = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            path_status, own_status = os.fstat(descriptor), os.fstat(self._descriptor)
        finally:
            os.close(descriptor)
        if (path_status.st_dev, path_status.st_ino, path_status.st_size) != (
            own_status.st_dev,
            own_status.st_ino,
            self._size,
        ):
            self._closed_reason = "another driver writes this ledger"
            raise TakenLedger(
                f"{self.path}: another driver wrote to it ({self._lock.describe_other_holder()}); this driver stops"
            )

    def _undo_write(self, error: OSError) -> None:
        """Remove a partly written line; if that fails, too, the ledger accepts no more records."""
        try:
            os.ftruncate(self._descriptor, self._size)
            os.fsync(self._descriptor)
        except OSError as undo_error:
            self._closed_reason = f"a failed write ({error.strerror}) could not be undone ({undo_error.strerror})"


def _write_all(descriptor: int, content: bytes) -> None:
    """Write the bytes, in several calls if necessary, and wait until they are on disk."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]
    os.fsync(descriptor)


def _fsync_folder(folder: Path) -> None:
    """Wait until the names of new files in a folder are on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
