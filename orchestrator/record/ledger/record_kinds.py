"""The kinds of records, and the required fields of each kind.

Types are not checked, because a checksum protects each line. Newer versions may add fields. Names and paths of files
are checked, because somebody else may have written the ledger.
"""

import re
from collections.abc import Mapping
from typing import Any

from orchestrator.record.ledger.folders import WEIGHTS_FOLDER, is_plain_sweep_path

RECORD_KINDS: Mapping[str, tuple[str, ...]] = {
    # The sweep at its start; the code and the environment of a resume; the specification of an extension.
    "sweep": ("name", "study", "spec", "spec_hash", "provenance"),
    "resume": ("provenance",),
    "extend": ("spec", "spec_hash", "provenance"),
    # Work: a drawn configuration, a pack of members that train together, packs that were repacked (`Repacking`).
    "configuration": ("number", "config_id", "values", "resolved", "duplicate_of", "measured"),
    "pack": ("pack_id", "structural_key", "members", "steps"),
    "recut": ("pack_ids", "packs", "workers"),
    # Reports of a pack. `loss` and `failed_at` (-1: never) have an item for each member, in the order of the pack.
    # Curves are `curves` in the record or a `file` with its `sha256`. `from_start`, optional: the pack had
    # run before, and had no checkpoint to resume from.
    "evaluation": ("pack_id", "step", "final", "loss", "failed_at", "seconds", "form", "compiled"),
    "attempt": ("pack_id", "error"),
    "pack_end": ("pack_id", "status", "error", "seconds"),
    "retry": ("pack_ids",),
    # Decisions from scores: the rounds of a race over seeds, and the rungs of a race over steps.
    "score": ("config_id", "number", "score", "seeds_failed"),
    "race": ("round", "seeds", "survivors", "next", "by", "values"),
    "rung": ("rung", "step", "since", "seeds", "survivors", "guarded", "values", "improvements", "spreads"),
    # The end of the sweep, and records that may follow it.
    "end": ("status", "message"),
    "publish": (),
    "later_evaluation": (
        "config_id",
        "seeds",
        "weights",
        "task",
        "samples",
        "step",
        "averages",
        "measured",
        "file",
        "sha256",
    ),
}
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")  # of a configuration or pack; part of file names


def find_record_problem(kind: str, fields: Mapping[str, Any]) -> str | None:
    """Return the problem of a record with the name of the field; None if the record is valid."""
    if kind not in RECORD_KINDS:
        return f"unknown kind of record {kind!r}"
    if missing := next((name for name in RECORD_KINDS[kind] if name not in fields), None):
        return f"record of kind {kind} has no field {missing!r}"

    # Names that become parts of file names.
    names = [(field, fields[field]) for field in ("config_id", "pack_id") if field in fields]
    if kind == "recut":
        names += [("pack_id", name) for pack in fields["packs"] for name in (pack["pack_id"], *pack.get("earlier", ()))]
    for field, name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            return f"record of kind {kind}: {field} is not a valid name: {name!r:.60}"

    # Paths of files that will be read.
    if kind in ("evaluation", "later_evaluation"):
        weights = [f"{WEIGHTS_FOLDER}/{file['name']}" for file in fields.get("weights", ()) if isinstance(file, dict)]
        for path in [fields.get("file"), *weights]:
            if path is not None and not is_plain_sweep_path(path):
                return f"record of kind {kind}: file is not a plain path inside the sweep folder: {path!r}"
    return None
