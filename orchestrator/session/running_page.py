"""Update the page of a running sweep in a thread of the driver, while workers train."""

import logging
import threading
from pathlib import Path
from types import TracebackType

_log = logging.getLogger(__name__)
_RETRY_SECONDS = 10.0  # after an error


class RunningPage:
    """A context that keeps report.html up to date, and imports the modules that the final report needs.

    `interim_best` is the text of `describe_interim_best` for the last page.
    """

    def __init__(self, folder: Path) -> None:
        self.interim_best = ""

        # A daemon thread does not keep a driver alive that is ended by an error.
        self._folder = folder
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._refresh, name="lengthwise-page", daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _refresh(self) -> None:
        """Rewrite the page until the block ends.

        An error is logged, and the page is tried again: the final report raises one that lasts.
        """
        while not self._ended.is_set():
            try:
                from orchestrator.report.write_report import refresh_page  # imports pandas and scipy
                from orchestrator.running.watching.interim_best import describe_interim_best

                for summary, curves in refresh_page(self._folder, self._ended):
                    self.interim_best = describe_interim_best(summary.state, curves)
            except Exception:
                _log.debug("the page of the running sweep was not written", exc_info=True)
                self._ended.wait(_RETRY_SECONDS)
