"""What things are called in MLflow, and when they happened: names that it takes, and times from the ledger."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from orchestrator.record.ledger.records import Record
from orchestrator.record.state.parts import ConfigurationState
from orchestrator.results.summary import Row
from orchestrator.wording import compact_value, label, short_keys

MAX_LABEL = 80


def sweep_id(records: Sequence[Record]) -> str:
    """Tells this sweep from any other of the same name: a hash of the ledger's first record."""
    first = records[0]
    facts = [first.time, first.fields["name"], first.fields["spec_hash"]]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def milliseconds(seconds: float) -> int:
    """Unix milliseconds."""
    return round(seconds * 1000)


def name(text: str) -> str:
    """`text` as one part of an MLflow key: letters of any script, digits, `_`, `-`, `.` and spaces.

    name("ema/0.99 (β)") -> "ema_0.99 _β_"; a part that would be empty or mean a folder becomes `_`.
    """
    cleaned = re.sub(r"[^\w.\- ]", "_", text).strip()[:MAX_LABEL].strip()
    return "_" if not cleaned.strip(".") else cleaned


def unique_names(texts: Iterable[str]) -> dict[str, str]:
    """`name` of each text; a number is added where two texts would share one."""
    names: dict[str, str] = {}
    for text in dict.fromkeys(texts):
        candidate, count = name(text), 2
        while candidate.casefold() in {taken.casefold() for taken in names.values()}:
            candidate, count = f"{name(text)}_{count}", count + 1
        names[text] = candidate
    return names


def flat(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """The leaves of nested mappings as (dotted key, text): flat({"a": {"b": 1}}) -> ("a.b", "1")."""
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            part = name(str(key))
            yield from flat(inner, f"{prefix}.{part}" if prefix else part)
    elif not isinstance(value, Mapping):
        yield (
            name(prefix) if len(prefix) <= MAX_LABEL else prefix,
            value if isinstance(value, str) else json.dumps(value, ensure_ascii=False),
        )


def run_name(row: Row) -> str:
    """A configuration, by its number and not its rank, which may change: `#3: lr 0.00316, dropout 0.3`."""
    short = short_keys(list(row.values))
    values = ", ".join(f"{short[key]} {compact_value(value)}" for key, value in row.values.items())
    return f"{label(row.number)}: {values or row.config_id}"


class EvaluationTimes:
    """When the ledger took each evaluation and the end of each pack, in milliseconds; the first report counts."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.evaluations: dict[tuple[str, int], int] = {}
        self.ends: dict[str, int] = {}
        for record in records:
            if record.kind == "evaluation":
                place = (record.fields["pack_id"], record.fields["step"])
                self.evaluations.setdefault(place, milliseconds(record.time))
            if record.kind == "pack_end" and self.ends.get(record.fields["pack_id"]) is None:
                self.ends[record.fields["pack_id"]] = milliseconds(record.time)

    def evaluation_ms(self, pack_id: str, step: int) -> int:
        """When the pack's evaluation at `step` was recorded."""
        return self.evaluations[pack_id, step]

    def pack_end_ms(self, pack_id: str) -> int:
        """When the pack's end was recorded, or its last evaluation while it has no end; 0 if it has neither."""
        last = max((ms for (pack, _), ms in self.evaluations.items() if pack == pack_id), default=0)
        return self.ends.get(pack_id, last)

    def end_ms(self, configuration: ConfigurationState) -> int:
        """When the last pack of a configuration ended."""
        return max((self.pack_end_ms(member.pack_id) for member in configuration.members.values()), default=0)
