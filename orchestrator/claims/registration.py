"""Register claims: the ledger records the digest of every claim about its sweep before training.

Later the digests show which claims were registered and which were changed since.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from orchestrator.code.code_record import compute_mapping_digest
from orchestrator.plan.extension import find_extension
from orchestrator.record.state.lineage import IMPORTED
from orchestrator.record.state.state import SweepState
from search_spaces import SweepFileError, SweepSpec, list_differences, load_sweep, parse_recorded
from search_spaces.grammar.claims import Claim, ClaimsFile, load_claims
from search_spaces.grammar.problems import FileProblem

CLAIMS_COPY = "claims.yaml"
"""The name of the copy of the claims file in the sweep's folder."""


def read_deciding_values(claim: Claim) -> dict[str, Any]:
    """Return the values of a claim that decide its verdict, for JSON; newer keys only if they are given.

    `negligible` defaults to the page's bound of no effect.
    """
    # Digests of older versions stay valid, because newer keys are left out at their defaults.
    values = claim.model_dump(mode="json", exclude={"asked_again", "figure", "note", "same_as", "source"})
    values["negligible"] = claim.no_effect_bound
    return {key: value for key, value in values.items() if value is not None or key not in ("statistic", "unit")}


def read_registered_values(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the deciding values of each claim by id, from the copy in the sweep folder; empty if unreadable."""
    try:
        return {claim.id: read_deciding_values(claim) for claim in load_claims(folder / CLAIMS_COPY).claims}
    except SweepFileError:
        return {}


def digest_claims(spec: SweepSpec) -> tuple[dict[str, str], bytes] | None:
    """Return the digests of the claims about a sweep by id, and the bytes of their file; None without `claims`.

    Raises SweepFileError if the claims file is invalid or has no claim about this sweep.
    """
    if spec.claims is None:
        return None

    path = (spec.folder or Path()) / spec.claims
    if not path.exists():
        raise SweepFileError([FileProblem(spec.format_location("claims"), "claims", f"{path}: there is no such file")])

    file = load_claims(path)
    digests = {
        claim.id: compute_mapping_digest(read_deciding_values(claim))
        for claim in file.claims
        if claim.sweep == spec.name
    }
    if not digests:
        text = f"no claim of {path} is about sweep {spec.name}"
        raise SweepFileError(
            [FileProblem(spec.format_location("claims"), "claims", text, allowed=", ".join(file.sweeps))]
        )
    return digests, path.read_bytes()


def describe_registration(
    claim: Claim, state: SweepState, values: Mapping[str, Mapping[str, Any]], seeds_seen: int = 0
) -> str:
    """Return whether a claim was registered before the sweep ran, and its changes since, as text.

    `values` are the deciding values of each registered claim (`read_registered_values`). A claim is registered only if
    an earlier page had shown no seed of the sweep (`seeds_seen`).
    """
    registration = _describe_digests(claim, state, values)
    if not seeds_seen:
        return registration
    reason = f"known before, because an earlier page had shown {seeds_seen} of the seeds"
    return f"{reason}; {registration.replace('registered', 'written down')}"


def _describe_digests(claim: Claim, state: SweepState, values: Mapping[str, Mapping[str, Any]]) -> str:
    """Return whether the ledger has the digest of a claim, and the changes since, as text."""
    if IMPORTED in state.provenance:
        return "registered afterwards, because the results were imported"
    if claim.id not in state.claims:
        return "written after the sweep ran, or without being registered"

    # Claims with the digest of today's values; older versions left out the bound of no effect.
    extended = ", which was extended since" if len(state.specs) > 1 else ""
    deciding = read_deciding_values(claim)
    registered_values = values.get(claim.id, {})
    if state.claims[claim.id] == compute_mapping_digest(deciding):
        return f"registered before the sweep ran{extended}"
    if state.claims[claim.id] == compute_mapping_digest({**deciding, "negligible": claim.negligible}):
        return f"registered before the sweep ran{extended}, without its bound of no effect"

    # Changed claims; the changes are unknown if the copy of the claims file was lost or edited.
    if state.claims[claim.id] != compute_mapping_digest(registered_values):
        return f"changed since it was registered before the sweep ran{extended}"
    all_keys = dict.fromkeys([*deciding, *registered_values])
    keys = [key for key in all_keys if registered_values.get(key) != deciding.get(key)]
    changes = [f"`{key}` was {_quote(registered_values.get(key))}" for key in keys]
    return f"changed since it was registered before the sweep ran{extended}, when {' and '.join(changes)}"


def _quote(value: object) -> str:
    """Return a value of a claim as text: sentences in quotation marks, others as JSON."""
    return f"“{value.rstrip('.')}”" if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def list_changes(state: SweepState, file: ClaimsFile) -> list[tuple[str, object, object]]:
    """Return (key, recorded value, value in the file) for every difference between a sweep and its file.

    Empty without a file beside the claims, and for a sweep that was only extended. Raises SweepFileError for an invalid
    sweep file.
    """
    path = file.path.with_name(f"{state.name}.yaml")
    if not path.exists():
        return []

    # The record has the direction of the metric if the file omits it.
    recorded_spec = parse_recorded(state.spec, "the specification")
    file_spec = load_sweep(path)
    if file_spec.direction_is_assumed:
        from orchestrator.plan.checks.sweep_file_checks import complete_objective  # imports the registries

        file_spec = complete_objective(file_spec)
    return [] if find_extension(file_spec, recorded_spec) else list_differences(recorded_spec, file_spec)
