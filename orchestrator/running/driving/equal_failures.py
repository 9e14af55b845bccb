"""Stop a sweep whose first packs all fail with the same error, as with a program that never works."""

from orchestrator.errors import LengthwiseError
from orchestrator.interface.trainer import MISSING_REPORT_MARKER
from orchestrator.record.state.state import SweepState
from orchestrator.results.seed_failures import make_retry_command
from orchestrator.text.tracebacks import shorten_log
from orchestrator.text.wording import format_command, group_errors

_SHOWN_LINES = 15


class EqualFailures(LengthwiseError):  # noqa: N818 - reads as the sentence it prints
    """The first packs failed with the same error; the message has the end of a log."""


def refuse_equal_failures(state: SweepState, min_packs: int | None) -> None:
    """Raise EqualFailures if all ended packs failed with the same error, and `min_packs` or all packs have ended.

    Unless an evaluation shows that later packs may work. Never if `min_packs` is None.
    """
    packs = state.packs.values()
    ended_packs = [pack for pack in packs if pack.has_ended]
    if min_packs is None or len(ended_packs) < min(min_packs, len(packs)):
        return

    # An evaluation shows that the program works up to its step, unless every program ends before its last report.
    ended_early = all(MISSING_REPORT_MARKER in (pack.error or "") for pack in ended_packs)
    if not ended_early and any(pack.evaluations for pack in packs):
        open_packs = [pack for pack in packs if not pack.has_ended]
        last_step = max(pack.step for pack in ended_packs)
        if len(ended_packs) < min_packs or not open_packs or any(pack.step > last_step for pack in open_packs):
            return

    # Messages that differ only in numbers, such as ports or process ids, have the same cause.
    errors = group_errors((pack.error or "", pack) for pack in ended_packs)
    if len(errors) > 1 or any(pack.status != "failed" for pack in ended_packs):
        return
    qualifier = " except for numbers" if len({pack.error for pack in ended_packs}) > 1 else ""

    # The end of a log usually has the cause, so the message shows it.
    log = (
        next((pack.traces[-1] for pack in ended_packs if pack.traces and pack.traces[-1]), None) or "(its log is empty)"
    )
    lines = shorten_log(log, _SHOWN_LINES)
    seeds = (
        f"first {len(ended_packs)} seeds failed with the same error{qualifier}"
        if len(ended_packs) > 1
        else "first seed failed"
    )
    raise EqualFailures(
        f"the {seeds}, so the sweep stopped: {ended_packs[-1].error}\n"
        + "\n".join(f"  {line}" for line in lines)
        + f"\nafter fixing it: {make_retry_command(state)}"
        + f"\nto change the sweep file as well: {format_command('delete', state.folder)}, then run it again"
    )
