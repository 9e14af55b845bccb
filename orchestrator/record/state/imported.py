"""Sweeps of imported results, which lengthwise reads and never runs."""

from orchestrator.errors import UserError
from orchestrator.record.state.state import SweepState
from orchestrator.wording import command

IMPORTED = "imported"
"""The key of a sweep's provenance with its source, and of its `program` with the SHA-256 of the table."""


def refuse_imported(state: SweepState) -> None:
    """Raise UserError for a sweep of imported results, whose members cannot be trained or evaluated."""
    if (imported := state.provenance.get(IMPORTED)) is not None:
        raise UserError(
            f"{state.folder}: was imported from {imported['source']}, so its members cannot be trained or evaluated "
            f"here; allowed: what reads results, such as {command('report', state.folder)}"
        )
