"""Write records to the ledger, then apply them to the state, so that the state is never ahead of the disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.state.state import SweepState


def add_record(ledger: Ledger, state: SweepState, kind: str, /, **fields: Any) -> None:
    """Append a record to the ledger, then apply it to the state. Raises what `Ledger.append` and `apply` raise."""
    add_records(ledger, state, kind, [fields])


def add_records(ledger: Ledger, state: SweepState, kind: str, entries: Iterable[Mapping[str, Any]]) -> None:
    """Append a record of one kind for each of `entries` with a single fsync, then apply them to the state."""
    for record in ledger.append_all(kind, entries):
        state.apply(record)
