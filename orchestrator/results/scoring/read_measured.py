"""What each configuration of a sweep measures, from its ledger, or from today's classes if the ledger lacks it."""

from orchestrator.plan.recorded import member_of
from orchestrator.record.kept.code import import_recorded
from orchestrator.record.state.measured import Measured
from orchestrator.record.state.state import SweepState


def read_measured(state: SweepState) -> dict[str, Measured]:
    """Return the metrics and lengths of every configuration, by config_id.

    Raises UserError if the ledger lacks it and today's code cannot build the configuration.
    """
    recorded = {name: Measured.from_recorded(fields) for name, fields in state.measured.items()}
    if any(found.measured is None for found in state.configurations.values()):
        import_recorded(state)
    return {
        found.config_id: recorded[found.measured]
        if found.measured is not None
        else Measured.from_member(member_of(found))
        for found in state.configurations.values()
    }
