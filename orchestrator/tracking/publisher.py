"""Publishes a sweep while it runs: in the background, and never raising into it."""

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from orchestrator.consoles import say
from orchestrator.errors import LengthwiseError
from orchestrator.record.ledger import Ledger
from orchestrator.record.records import Record
from search_spaces import SweepSpec

if TYPE_CHECKING:
    from orchestrator.tracking.artifacts import Artifacts
    from orchestrator.tracking.publish import Published

_log = logging.getLogger(__name__)


class SweepPublishing:
    """What a sweep publishes while it runs, if its file says so.

    It begins with the first score, and calls `artifacts` then: what both import is slow to import, and idle before.
    """

    def __init__(self, spec: SweepSpec, folder: Path, artifacts: Callable[[], "Artifacts"]) -> None:
        self._section, self._folder, self._artifacts = spec.tracking, folder, artifacts
        self._publisher: Publisher | None = None

    def seen(self, record: Record) -> None:
        """Publish what a score completes."""
        if record.kind == "score" and self._section.enabled:
            self._begun().notify()

    def close(self, ledger: Ledger, console: Console) -> None:
        """Publish the rest; what could not be published is said, recorded, and does not fail the sweep."""
        if not self._section.enabled:
            return
        publisher = self._begun()
        problem = publisher.close()
        published = publisher.latest
        uri = published.uri if published is not None else self._section.uri
        ledger.append("publish", uri=uri, ok=problem is None, message=problem or "")
        if problem is not None:
            say(console, f"not published: {problem}")
        elif published is not None:
            for what, link in published.links:
                say(console, f"{what}: {link}")

    def _begun(self) -> "Publisher":
        if self._publisher is None:
            self._publisher = Publisher(
                self._folder, self._section.uri, artifacts=self._artifacts(), experiment=self._section.experiment
            )
        return self._publisher


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
        artifacts: "Artifacts",
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
