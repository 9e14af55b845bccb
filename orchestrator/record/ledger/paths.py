"""The paths that a record of curves names, which must stay inside the sweep folder."""

from collections.abc import Mapping
from typing import Any

from orchestrator.record.ledger.folders import refuse_outside

WEIGHTS_FOLDER = "weights"
STOP_FILE = "checkpoints/stop"  # stops all packs at their next evaluation


def path_outside(kind: str, fields: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the first path of a record that points out of the sweep folder; None without one."""
    weights = [file["name"] for file in fields.get("weights", ()) if isinstance(file, Mapping)]
    named = [("file", fields["file"]), *(("weights.name", f"{WEIGHTS_FOLDER}/{name}") for name in weights)]
    for field, path in named:
        try:
            refuse_outside(path)
        except ValueError as error:
            return f"{field} of a record of kind {kind} {error}: {path!r}"
    return None
