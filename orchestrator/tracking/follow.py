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

    Each pass reads the whole ledger, so passes keep a distance of four times their duration, and of half a minute
    during an outage. `check` is called first, to notice at once what would make every pass fail. `report` is called
    with what came of it and of every pass.
    """
    report(attempt(folder, check))
    ledger, distance = _LedgerEnd(folder / LEDGER_FILE), pause
    while True:
        time.sleep(distance)
        if not is_running():
            return
        if not ledger.has_new_score():
            distance = pause
            continue
        began = time.monotonic()
        result = attempt(folder, publish)
        report(result)
        if result.problem is not None:
            ledger.read_again()
        distance = max(6 * pause if result.problem else pause, 4 * (time.monotonic() - began))


class _LedgerEnd:
    """What was appended to a ledger since the last look."""

    def __init__(self, path: Path) -> None:
        self._path, self._read = path, 0

    def has_new_score(self) -> bool:
        """Return whether complete lines appended since the last call hold a score."""
        with self._path.open("rb") as ledger:
            ledger.seek(self._read)
            lines = ledger.read()
        self._read += lines.rfind(b"\n") + 1
        return _SCORE in lines[: lines.rfind(b"\n") + 1]

    def read_again(self) -> None:
        """Let the next call read the ledger from its beginning."""
        self._read = 0
