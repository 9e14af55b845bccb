"""Make names that MLflow accepts for metrics, parameters and runs."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from orchestrator.record.ledger.records import Record
from orchestrator.record.state.labels import make_label
from orchestrator.results.summary import ConfigurationResult, Summary
from orchestrator.text.wording import format_values

MAX_LABEL = 80  # characters of a key part
MAX_RUN_NAME = 24  # with longer names the legend of a chart has room for two runs
WITH_VALUES = "the label and the searched values of the configuration"
WITH_SWEEP = "the sweep and the label of the configuration"
LABEL_ALONE = "the label of the configuration"


def compute_sweep_id(records: Sequence[Record]) -> str:
    """Return the identity of a sweep, a hash of its first record, which distinguishes sweeps of one name."""
    first = records[0]
    hashed = [first.time, first.fields["name"], first.fields["spec_hash"]]
    return hashlib.sha256(json.dumps(hashed).encode()).hexdigest()[:16]


def make_key_part(text: str) -> str:
    """Return a text as a part of an MLflow key: letters of any script, digits, `_`, `-`, `.` and spaces.

    make_key_part("ema/0.99 (β)") -> "ema_0.99 _β_"; a part that is empty or only dots becomes `_`.
    """
    cleaned = re.sub(r"[^\w.\- ]", "_", text).strip()[:MAX_LABEL].strip()
    return "_" if not cleaned.strip(".") else cleaned


def make_unique_names(texts: Iterable[str]) -> dict[str, str]:
    """Return the key part of each text, with a number appended if two texts have the same key part."""
    names: dict[str, str] = {}
    for text in dict.fromkeys(texts):
        # Names that differ only in case are equal for some databases.
        candidate = make_key_part(text)
        suffix = 2
        while candidate.casefold() in {name.casefold() for name in names.values()}:
            candidate = f"{make_key_part(text)}_{suffix}"
            suffix += 1
        names[text] = candidate
    return names


def flatten(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the leaves of nested mappings as (dotted key, text): flatten({"a": {"b": 1}}) -> ("a.b", "1")."""
    if isinstance(value, Mapping):
        for key, inner_value in value.items():
            part = make_key_part(str(key))
            yield from flatten(inner_value, f"{prefix}.{part}" if prefix else part)
        return

    # All parts are clean. Cleaning the whole key only strips blanks at its ends, and would cut a long key.
    key = make_key_part(prefix) if len(prefix) <= MAX_LABEL else prefix
    # JSON would put texts in quotes, which MLflow would show.
    yield key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def list_run_names(summary: Summary, row: ConfigurationResult) -> dict[str, str]:
    """Return the possible names of a configuration's run by form: `#3: lr 0.00316`, `quickstart #3` and `#3`."""
    label = make_label(summary.state.provenance, row.number)
    with_values = {WITH_VALUES: f"{label}: {format_values(row.values)}"} if row.values else {}
    return with_values | {WITH_SWEEP: f"{summary.name} {label}", LABEL_ALONE: label}


def choose_name_form(summary: Summary) -> str:
    """Return the first form in which the names of all configurations of a sweep are short."""
    names = [list_run_names(summary, row) for row in summary.rows]
    return next(
        form
        for form in (WITH_VALUES, WITH_SWEEP, LABEL_ALONE)
        if form == LABEL_ALONE or all(form in forms and len(forms[form]) <= MAX_RUN_NAME for forms in names)
    )
