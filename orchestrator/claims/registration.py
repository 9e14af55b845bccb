"""Pre-registration: a ledger keeps the digest of every claim about its sweep before the first step is trained.

And whether a ledger is that of the sweep file beside its claims.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from orchestrator.record.state.state import SweepState
from search_spaces import SweepFileError, SweepSpec, differences, load_sweep, parse_recorded
from search_spaces.grammar.claims import Claim, ClaimsFile, load_claims
from search_spaces.grammar.problems.errors import Problem

if TYPE_CHECKING:
    from orchestrator.claims.members import Members  # brings pandas, which the start of a sweep does without

KEPT = "claims.yaml"
"""The copy of the claims file in the sweep's folder."""


def digest(claim: Claim) -> str:
    """Return 16 hex characters that name everything about a claim that decides its verdict."""
    deciding = claim.model_dump(mode="json", exclude={"figure", "note"})
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
        said = f"no claim of {path} asks sweep {spec.name}"
        raise SweepFileError([Problem(spec.where("claims"), "claims", said, allowed=", ".join(file.sweeps))])
    return about, path.read_bytes()


def say_when_registered(claim: Claim, members: "Members", file: ClaimsFile) -> str:
    """Return whether a claim stood in the sweep's ledger before it ran, as the page says it."""
    registered: Mapping[str, Any] = members.state.claims
    if claim.id not in registered:
        return "written after the sweep ran, or without being registered"
    if registered[claim.id] == digest(claim):
        return "registered before the sweep ran"
    return "changed since it was registered before the sweep ran"


def changes_since(state: SweepState, file: ClaimsFile) -> list[tuple[str, object, object]]:
    """Return (key, in the ledger, in the file) where a sweep was begun with another specification than its file has.

    Empty without such a file beside the claims. Raises SweepFileError for a sweep file that cannot be read.
    """
    path = file.path.with_name(f"{state.name}.yaml")
    if not path.exists():
        return []
    return list(differences(parse_recorded(state.spec, "the specification"), load_sweep(path)))
