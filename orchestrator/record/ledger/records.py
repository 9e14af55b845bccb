"""The records of a sweep: checksummed JSON lines in `events.jsonl`, written by `ledger` and read without a lock.

A line is `{"seq":N,"time":T,"kind":K,"data":{...},"sha":S}` in ASCII, without spaces, keys in the order they were
given. S is the first 16 hex digits of the SHA-256 of the same line without its `sha`. JSON has no infinities and no
NaN, so they are written `{"$float":"inf"}`. A last line without a newline is an incomplete write that was never
acknowledged, and is skipped. Any other changed byte raises DamagedLedger.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from orchestrator.errors import DamagedLedger, LedgerError, NewerLedger, OlderLedger
from orchestrator.record.ledger.folders import (
    LEDGER_FILE,
    make_no_sweep_error,
    refuse_unexpected_files,
    refuse_unexpected_folders,
)
from orchestrator.record.ledger.lock import MAX_TIME

SCHEMA = 2  # 1: before 1.0.0
INLINE_SCHEMA = 3  # of sweeps whose small curves are in the ledger itself


@dataclass(frozen=True)
class Record:
    """One line of the ledger: its number, the time it was written (Unix seconds), its kind and its fields."""

    seq: int
    time: float
    kind: str
    fields: dict[str, Any]


def read_records(folder: Path) -> list[Record]:
    """Return the complete records of the sweep in `folder`, without locking or changing anything.

    A last line without a newline is skipped: its writer died, or is still writing it. Raises NotASweep, LedgerError,
    DamagedLedger, NewerLedger, OlderLedger.
    """
    return parse_records(folder / LEDGER_FILE, read_ledger_bytes(folder))[0]


def read_first_record(folder: Path) -> Record:
    """Return the first record of a ledger, of kind `sweep`; reads only its line. Raises as `read_records` does."""
    return parse_records(folder / LEDGER_FILE, _read_ledger_file(folder, first_line_only=True))[0][0]


def encode_record(record: Record) -> bytes:
    """Return the line of a record with its newline. Raises TypeError for a value that JSON cannot represent."""
    body = json.dumps(
        {
            "seq": record.seq,
            "time": record.time,
            "kind": record.kind,
            "data": _make_json_value(record.fields, record.kind),
        },
        separators=(",", ":"),
        allow_nan=False,
    ).encode("ascii")
    return body[:-1] + b',"sha":"' + _compute_checksum(body) + b'"}\n'


def decode_record(line: bytes) -> Record:
    """Return the record of a line without its newline. Raises ValueError with the problem."""
    # A line ends with ,"sha":" (8 bytes), 16 hexadecimal digits and "} (2 bytes).
    body, mark, end = line[:-26] + b"}", line[-26:-18], line[-18:]
    if mark != b',"sha":"' or end != _compute_checksum(body) + b'"}':
        raise ValueError("the line does not match its checksum")
    try:
        hook = _restore_float if b'"$float"' in body else None  # a hook takes most of the time
        value = json.loads(body, object_hook=hook)
    except RecursionError:
        raise ValueError("the line is nested too deeply") from None

    # A line with a valid checksum may be no record. The types are checked, because readers rely on them.
    try:
        record = Record(value["seq"], value["time"], value["kind"], value["data"])
    except (KeyError, TypeError):
        raise ValueError("the line is not a record") from None
    kinds = type(record.seq), type(record.kind), type(record.fields)
    if kinds != (int, str, dict) or type(record.time) not in (int, float) or not 0 <= record.time < MAX_TIME:
        raise ValueError("the line is not a record")
    return record


def _compute_checksum(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:16].encode("ascii")


def _make_json_value(value: Any, where: str) -> Any:
    """Return `value` as strict JSON; `_restore_float` restores infinities and NaN."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"$float": repr(value)}
    if isinstance(value, list | tuple):
        return [_make_json_value(item, f"{where}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str) or key == "$float":
                raise TypeError(f"{where}: {key!r} cannot be a key in the ledger")
        return {key: _make_json_value(item, f"{where}.{key}") for key, item in value.items()}
    raise TypeError(f"{where}: a {type(value).__name__} cannot be written to the ledger")


def _restore_float(value: dict[str, Any]) -> Any:
    """Return the float that `_make_json_value` wrote as this JSON object; other objects are returned unchanged."""
    if value.keys() != {"$float"}:
        return value
    if not isinstance(value["$float"], str):
        raise ValueError(f"{value}: $float is not a string")
    return float(value["$float"])


def read_ledger_bytes(folder: Path) -> bytes:
    """Return the bytes of the ledger in `folder`. Raises NotASweep, UnexpectedEntry, LedgerError."""
    refuse_unexpected_folders(folder)
    return _read_ledger_file(folder)


def _read_ledger_file(folder: Path, *, first_line_only: bool = False) -> bytes:
    """Return the bytes of a ledger, or of its first line. Raises NotASweep, UnexpectedEntry, LedgerError."""
    path = folder / LEDGER_FILE
    refuse_unexpected_files(folder)
    try:
        with path.open("rb") as file:
            return file.readline() if first_line_only else file.read()
    except (FileNotFoundError, NotADirectoryError):
        raise make_no_sweep_error(folder) from None
    except OSError as error:
        raise LedgerError(f"{path}: cannot be read: {error.strerror}") from error


def parse_records(path: Path, content: bytes) -> tuple[list[Record], int]:
    """Return the records of all complete lines of a ledger, and the total bytes of these lines.

    Raises DamagedLedger, NewerLedger, OlderLedger.
    """
    # The error names the first damaged line, because `repair` keeps the lines before it.
    *lines, torn = content.split(b"\n")
    records: list[Record] = []
    for number, line in enumerate(lines, start=1):
        try:
            record = decode_record(line)
        except ValueError as error:
            raise DamagedLedger(path, number, str(error)) from None
        if record.seq != number - 1:
            raise DamagedLedger(path, number, f"expected record {number - 1}, got record {record.seq}")
        if number == 1:
            _check_schema(path, record)
        records.append(record)

    # A torn last line is skipped, even if only its newline is missing; text after a complete record is damage.
    if not records:
        raise DamagedLedger(path, 1, "the first record is missing")
    if _has_text_after_record(torn):
        raise DamagedLedger(path, len(lines) + 1, "text follows a complete record")
    return records, len(content) - len(torn)


def _has_text_after_record(torn: bytes) -> bool:
    """Return whether a torn line has text after a complete record: a sign of a lost newline, not of a cut write."""
    # A value may contain the text of a checksum, so a match counts only if it is the checksum of the bytes before it.
    digest, read = hashlib.sha256(), 0  # updated part by part, so that a long line is read once
    for end in re.finditer(rb',"sha":"([0-9a-f]{16})"}', torn[:-1]):
        digest.update(torn[read : end.start()])
        read = end.start()
        record_digest = digest.copy()
        record_digest.update(b"}")
        if record_digest.hexdigest()[:16].encode() == end[1]:
            return True
    return False


def _check_schema(path: Path, first: Record) -> None:
    """Raise an error if this version cannot read a ledger with this first record."""
    schema = first.fields.get("schema")
    if first.kind != "sweep" or not isinstance(schema, int):
        raise DamagedLedger(path, 1, "the first record is not of kind sweep")
    if schema < SCHEMA:
        raise OlderLedger(f"{path}: written before lengthwise 1.0.0; read it with that older version")
    if schema > INLINE_SCHEMA:
        message = f"has ledger schema {schema}; this version of lengthwise reads up to {INLINE_SCHEMA}"
        raise NewerLedger(f"{path}: {message}")
