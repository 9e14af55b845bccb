"""The page of a running sweep: a thread of the driver writes it anew while workers train."""

import logging
import threading
from pathlib import Path
from types import TracebackType

_log = logging.getLogger(__name__)


class RunningPage:
    """Keeps report.html up to date while the block runs, and imports what the report at the end needs."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._ended = folder, threading.Event()
        self._thread = threading.Thread(target=self._refresh, name="lengthwise-page", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _refresh(self) -> None:
        try:
            from orchestrator.report.files import refresh_page  # imports pandas and scipy

            refresh_page(self._folder, self._ended)
        except Exception:  # the driver will meet it again at the end and explain it
            _log.debug("the page of the running sweep is not written", exc_info=True)
