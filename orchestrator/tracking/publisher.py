"""Publishes a sweep while it runs: in the background, and never raising into it."""

import logging
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.console import Console

from orchestrator.consoles import say
from orchestrator.errors import LengthwiseError
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.records import Record
from orchestrator.redaction import redact, remember
from orchestrator.tracking.published import Published
from orchestrator.wording import command
from search_spaces import SweepSpec

_log = logging.getLogger(__name__)


LONGEST_SECONDS = 30.0  # that the end of a sweep waits for MLflow; `lengthwise publish` waits so long for each request

Publish = Callable[..., Published]


class SweepPublishing:
    """What a sweep publishes while it runs, if its file says so.

    It begins with the first score. `publish(sweep_files=...)` is one pass.
    """

    def __init__(self, spec: SweepSpec, folder: Path, publish: Publish) -> None:
        remember(spec.tracking.uri)
        self._section, self._folder, self._publish = spec.tracking, folder, publish
        self._publisher: Publisher | None = None

    def seen(self, record: Record) -> None:
        """Publish what a score completes."""
        if record.kind == "score" and self._section.enabled:
            self._begun().notify()

    def stop(self) -> None:
        """Begin no other pass: somebody else makes the last one, or `close` makes it anew."""
        if self._publisher is not None:
            self._publisher.stop()
            self._publisher = None

    def close(self, ledger: Ledger, console: Console) -> None:
        """Publish the rest; what could not be published is said, recorded, and does not fail the sweep."""
        if self._section.enabled:
            publisher = self._begun()
            problem = publisher.close()
            self.record(ledger, console, publisher.latest, problem)

    def record(self, ledger: Ledger, console: Console, published: Published | None, problem: str | None) -> None:
        """Record and say what the last pass has published, or why it could not."""
        uri = published.uri if published is not None else self._section.uri
        ledger.append("publish", uri=uri, ok=problem is None, message=problem or "")
        if problem is not None:
            say(console, f"not published: {problem}")
        elif published is not None:
            for what, link in published.links:
                say(console, f"{what}: {link}")

    def _begun(self) -> "Publisher":
        if self._publisher is None:
            self._publisher = Publisher(self._folder, self._publish)
        return self._publisher


class Publisher:
    """Publishes one sweep from a background thread; never raises into the sweep.

    `notify` after each finished configuration; passes follow each other, and the first score, at a distance, since each
    reads the whole ledger: a sweep that ends sooner is published once. `close` makes one last pass with figures and
    report, after the ledger has its `end` record.
    """

    def __init__(self, folder: Path, publish: Publish, *, pause: float = 5.0) -> None:
        self.folder, self.pause, self._publish = Path(folder), pause, publish
        self.latest: Published | None = None
        self.problem: str | None = None
        self._wake, self._closing, self._stopped = threading.Event(), threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, name="lengthwise-publisher", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Make no other pass; does not wait for one that is being made."""
        self._stopped.set()
        self._closing.set()
        self._wake.set()

    def notify(self) -> None:
        """Say that something is new in the ledger; returns at once."""
        self._wake.set()

    def close(self, timeout: float = LONGEST_SECONDS) -> str | None:
        """Make the last pass and wait for it; returns None, or what is not published and how to publish it."""
        self._closing.set()
        self._wake.set()
        self._thread.join(timeout)
        return late(self.folder, timeout) if self._thread.is_alive() else self.problem

    def _run(self) -> None:
        self._wake.wait()
        self._closing.wait(self.pause)
        while True:
            self._wake.wait()
            self._wake.clear()
            if self._stopped.is_set():
                return
            last = self._closing.is_set()
            started = time.monotonic()
            self._pass(last)
            if last:
                return
            distance = self.pause * (6 if self.problem else 1)  # an outage is not asked about every few seconds
            self._closing.wait(max(distance, 4 * (time.monotonic() - started)))

    def _pass(self, last: bool) -> None:
        published, self.problem = attempted(self.folder, partial(self._publish, sweep_files=last))
        self.latest = published or self.latest


def attempted(folder: Path, publish: Publish) -> tuple[Published | None, str | None]:
    """What a pass has published, or the problem in words."""
    try:
        return publish(), None
    except LengthwiseError as error:
        return None, str(error)
    except Exception as error:
        _log.debug("publishing %s failed", folder, exc_info=True)
        failed = redact(f"publishing to MLflow failed ({type(error).__name__}: {error})")
        return None, f"{failed}; complete it with: {command('publish', folder)}"


def late(folder: Path, seconds: float) -> str:
    """What is said of a pass that takes longer than anybody waits."""
    return f"publishing to MLflow did not end in {seconds:.0f} s; complete it with: {command('publish', folder)}"
