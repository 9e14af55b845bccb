"""Name the state of a sweep as people read it: in `list`, in `status`, and at the end of `run`."""

from orchestrator.record.ledger.lock import describe_running_driver
from orchestrator.record.state.state import SweepState

_WORDS = {"complete": "finished", None: "interrupted"}  # without an `end` record the driver was killed


def describe_sweep_status(state: SweepState) -> str:
    """Return running, finished, failed or no score (no configuration has one), interrupted or stopped."""
    return "running" if describe_running_driver(state.folder) else describe_end_status(state)


def shorten_end_message(state: SweepState) -> str:
    """Return why the sweep ended, without the error of a failed pack, which stands beside its seeds; "" if unset."""
    message = state.end_message or ""
    for _, error in state.failed_packs:
        message = message.removesuffix(f": {error}")
    return message


def describe_end_status(state: SweepState) -> str:
    """Return the word for how a sweep ended; "no score" instead of failed if none of its seeds failed."""
    if state.end_status == "failed" and not any(member.status == "failed" for member in state.members):
        return "no score"
    return _WORDS.get(state.end_status) or str(state.end_status)
