"""What a configuration measures, as its record names it.

The record of a configuration names its metrics and lengths by digest, under `measured`. The first one with a new digest
has all of it too, under `measured_in_full`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from orchestrator.measured import Measured


def measured_fields(measured: Measured, known: Iterable[str]) -> dict[str, Any]:
    """Return the fields of a configuration's record about its metrics; in full unless the digest is `known`."""
    recorded = measured.recorded()
    name = hashlib.sha256(json.dumps(recorded).encode()).hexdigest()[:12]
    return {"measured": name} | ({} if name in known else {"measured_in_full": {name: recorded}})


def read_measured(in_full: Mapping[str, Mapping[str, Any]], digests: Mapping[str, str]) -> dict[str, Measured]:
    """Return what each configuration of a ledger measures, by config_id; `digests` has its digest in `in_full`."""
    by_digest = {digest: Measured.from_recorded(fields) for digest, fields in in_full.items()}
    return {name: by_digest[digest] for name, digest in digests.items()}


def measured_lengths(recorded: Iterable[Mapping[str, Any]]) -> dict[str, set[int]]:
    """Return the lengths of recorded metrics that are not measured at all evaluated lengths."""
    found: dict[str, set[int]] = {}
    for fields in recorded:
        for one in fields["sets"]:
            if len(one["lengths"]) < len(fields["lengths"]):
                found |= {name: set(one["lengths"]) for name in one["metrics"]}
    return found
