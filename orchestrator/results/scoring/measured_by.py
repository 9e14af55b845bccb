"""What each configuration of a sweep measures: as its ledger says, or as today's classes do where it does not."""

from orchestrator.plan.recorded import member_of
from orchestrator.record.kept.code import import_recorded
from orchestrator.record.state.measured import Measured
from orchestrator.record.state.state import SweepState


def measured_by(state: SweepState) -> dict[str, Measured]:
    """What every configuration measures, by config_id.

    Raises UserError where the ledger does not say it and today's code cannot build the configuration.
    """
    recorded = {name: Measured.from_recorded(fields) for name, fields in state.measured.items()}
    if any(found.measured is None for found in state.configurations.values()):
        import_recorded(state)
    return {
        found.config_id: recorded[found.measured] if found.measured is not None else Measured.of(member_of(found))
        for found in state.configurations.values()
    }
