"""Publishes a sweep while it runs: in the background, and never raising into it."""

import logging
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from orchestrator.errors import LengthwiseError
from orchestrator.tracking.artifacts import Artifacts

if TYPE_CHECKING:
    from orchestrator.tracking.publish import Published

_log = logging.getLogger(__name__)


class Publisher:
    """Publishes one sweep from a background thread; never raises into the sweep.

    `notify` after each finished configuration; passes follow each other at a distance, since each reads the whole
    ledger. `close` makes one last pass with figures and report, after the ledger has its `end` record.
    """

    def __init__(
        self,
        folder: Path,
        uri: str | None = None,
        *,
        artifacts: Artifacts,
        experiment: str | None = None,
        pause: float = 5.0,
    ) -> None:
        from orchestrator.tracking.publish import publish  # mlflow is slow to import

        self.folder, self.pause = Path(folder), pause
        self._publish = partial(publish, self.folder, uri, artifacts=artifacts, experiment=experiment)
        self.latest: Published | None = None
        self.problem: str | None = None
        self._wake, self._closing = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="lengthwise-publisher", daemon=True)
        self._thread.start()

    def notify(self) -> None:
        """Say that something is new in the ledger; returns at once."""
        self._wake.set()

    def close(self, timeout: float = 60.0) -> str | None:
        """Make the last pass and wait for it; returns None, or what is not published and how to publish it."""
        self._closing.set()
        self._wake.set()
        self._thread.join(timeout)
        if self._thread.is_alive():
            late = f"publishing to MLflow did not end in {timeout:.0f} s"
            return f"{late}; complete it with: lengthwise publish {self.folder}"
        return self.problem

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            last = self._closing.is_set()
            started = time.monotonic()
            self._pass(last)
            if last:
                return
            distance = self.pause * (6 if self.problem else 1)  # an outage is not asked about every few seconds
            self._closing.wait(max(distance, 4 * (time.monotonic() - started)))

    def _pass(self, last: bool) -> None:
        try:
            self.latest = self._publish(sweep_files=last)
            self.problem = None
        except LengthwiseError as error:
            self.problem = str(error)
        except Exception as error:
            _log.exception("publishing %s failed", self.folder)
            self.problem = (
                f"publishing to MLflow failed ({type(error).__name__}: {error}); "
                f"complete it with: lengthwise publish {self.folder}"
            )
