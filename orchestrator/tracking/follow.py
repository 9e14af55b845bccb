"""Publishes a running sweep again and again, after new scores in its ledger."""

import time
from collections.abc import Callable
from pathlib import Path

from orchestrator.record.ledger.records import LEDGER_FILE
from orchestrator.tracking.attempt import Attempt, Published, attempt

PAUSE = 5.0  # seconds between two looks at the ledger
_SCORE = b'"kind":"score"'  # as `records.encode` writes it


def follow(
    folder: Path,
    publish: Callable[[], Published],
    *,
    is_running: Callable[[], bool],
    check: Callable[[], None] = lambda: None,
    report: Callable[[Attempt], None] = lambda attempt: None,
    pause: float = PAUSE,
) -> None:
    """Call `publish` after new scores of the sweep in `folder`, until `is_running` returns False.

    Each pass reads the whole ledger, so the pause after it is at least four times its duration, and half a minute
    during an outage. `check` is called first, so that a problem of every pass is reported at once. `report` is called
    with the results of the check and of every pass.
    """
    report(attempt(folder, check))
    distance, read = pause, 0  # bytes of complete lines whose scores are published
    while True:
        time.sleep(distance)
        if not is_running():
            return
        with (folder / LEDGER_FILE).open("rb") as ledger:
            ledger.seek(read)
            appended = ledger.read()
        complete = appended[: appended.rfind(b"\n") + 1]
        read += len(complete)
        if _SCORE not in complete:
            distance = pause
            continue
        began = time.monotonic()
        result = attempt(folder, publish)
        report(result)
        read = 0 if result.problem else read
        distance = max(6 * pause if result.problem else pause, 4 * (time.monotonic() - began))
