"""Name the state of a sweep as people read it: in `list`, in `status`, and at the end of `run`."""

from orchestrator.record.ledger.lock import describe_running_driver
from orchestrator.record.state.state import SweepState

_WORDS = {"complete": "finished", None: "interrupted"}  # without an `end` record the driver was killed


def describe_sweep_status(state: SweepState) -> str:
    """Return running, finished, failed (no configuration has a score), interrupted or stopped."""
    return "running" if describe_running_driver(state.folder) else describe_end_status(state.end_status)


def describe_end_status(end_status: str | None) -> str:
    """Return the word for the status of an `end` record, None without a record."""
    return _WORDS.get(end_status) or str(end_status)
