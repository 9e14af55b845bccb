"""Pre-registration: a ledger records the digest of every claim about its sweep before training.

It also compares the ledger with the sweep file beside the claims file.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.plan.extension import extension_of
from orchestrator.record.state.state import SweepState
from search_spaces import SweepFileError, SweepSpec, differences, load_sweep, parse_recorded
from search_spaces.grammar.claims import Claim, ClaimsFile, load_claims
from search_spaces.grammar.problems.errors import Problem

if TYPE_CHECKING:
    from orchestrator.claims.members import Members  # brings pandas, which the start of a sweep does without

KEPT = "claims.yaml"
"""The copy of the claims file in the sweep's folder."""


def digest(claim: Claim) -> str:
    """Return a digest of 16 hex characters of everything in a claim that decides its verdict."""
    deciding = claim.model_dump(mode="json", exclude={"figure", "note", "source"})
    return hashlib.sha256(json.dumps(deciding, sort_keys=True).encode()).hexdigest()[:16]


def register(spec: SweepSpec) -> tuple[dict[str, str], bytes] | None:
    """Return the digests of the claims about a sweep by id, and the file's bytes; None if its file names no claims.

    Raises SweepFileError when the claims file cannot be used or has no claim about this sweep.
    """
    if spec.claims is None:
        return None
    path = (spec.folder or Path()) / spec.claims
    file = load_claims(path)
    about = {claim.id: digest(claim) for claim in file.claims if claim.sweep == spec.name}
    if not about:
        text = f"no claim of {path} is about sweep {spec.name}"
        raise SweepFileError([Problem(spec.where("claims"), "claims", text, allowed=", ".join(file.sweeps))])
    return about, path.read_bytes()


def say_when_registered(claim: Claim, members: "Members", file: ClaimsFile) -> str:
    """Return in words whether a claim was registered in the sweep's ledger before it ran."""
    registered: Mapping[str, Any] = members.state.claims
    if claim.id not in registered:
        return "written after the sweep ran, or without being registered"
    extended = ", which was extended since" if len(members.state.specs) > 1 else ""
    if registered[claim.id] == digest(claim):
        return f"registered before the sweep ran{extended}"
    return f"changed since it was registered before the sweep ran{extended}"


def changes_since(state: SweepState, file: ClaimsFile) -> list[tuple[str, object, object]]:
    """Return (key, recorded value, value in the file) for every difference of a sweep from its file today.

    Empty if there is no such file beside the claims, and for a sweep that has only been extended since. Raises
    SweepFileError for a sweep file that cannot be read.
    """
    path = file.path.with_name(f"{state.name}.yaml")
    if not path.exists():
        return []
    recorded, written = parse_recorded(state.spec, "the specification"), load_sweep(path)
    if written.direction_is_assumed:
        from orchestrator.plan.checks.soundness import completed  # brings the registries

        written = completed(written)
    return [] if extension_of(written, recorded) else list(differences(recorded, written))
