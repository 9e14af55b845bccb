"""Name the state of a sweep as people read it: in `list`, in `status`, and at the end of `run`."""

from orchestrator.record.ledger.lock import describe_running_driver
from orchestrator.record.state.state import SweepState

_WORDS = {"complete": "finished", None: "interrupted"}  # without an `end` record the driver was killed


def describe_sweep_status(state: SweepState) -> str:
    """Return running, finished, failed or no score (no configuration has one), interrupted or stopped."""
    return "running" if describe_running_driver(state.folder) else describe_end_status(state)


def describe_end_status(state: SweepState) -> str:
    """Return the word for how a sweep ended; "no score" instead of failed if none of its seeds failed."""
    if state.end_status == "failed" and not any(member.status == "failed" for member in state.members):
        return "no score"
    return _WORDS.get(state.end_status) or str(state.end_status)
