"""One attempt to publish a sweep, which never raises: its results, or the problem in words."""

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from orchestrator.errors import LengthwiseError
from orchestrator.wording import command

LONGEST_SECONDS = 30.0  # that the end of a sweep waits for MLflow; `lengthwise publish` has this limit for each request

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Published:
    """What one call of `publish` did: runs `created` and `points` sent by it, configurations `completed` in all."""

    uri: str
    parent_run_id: str
    links: tuple[tuple[str, str], ...]
    created: int
    completed: int
    points: int


@dataclass(frozen=True)
class Attempt:
    """What an attempt published, or its problem in words; one of them is None.

    `is_refused`: whether the problem stays until the user acts: true for a wrong password, false for an outage.
    """

    published: Published | None = None
    problem: str | None = None
    is_refused: bool = False

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "Attempt":
        """Return the attempt that `dataclasses.asdict` and JSON have turned into `fields`."""
        if fields["published"] is None:
            return cls(problem=fields["problem"], is_refused=fields["is_refused"])
        links = tuple((name, link) for name, link in fields["published"]["links"])
        return cls(published=Published(**{**fields["published"], "links": links}))


def attempt(folder: Path, publish: Callable[[], Published | None]) -> Attempt:
    """Call `publish` for the sweep in `folder` and return its result or its problem."""
    try:
        return Attempt(published=publish())
    except LengthwiseError as error:
        return Attempt(problem=str(error), is_refused=error.exit_code == 2)
    except Exception as error:
        _log.debug("publishing %s failed", folder, exc_info=True)
        failed = f"publishing to MLflow failed ({type(error).__name__}: {error})"
        return Attempt(problem=f"{failed}; complete it with: {command('publish', folder)}")


class BackgroundAttempt:
    """An attempt in a thread of its own, begun at once."""

    def __init__(self, folder: Path, publish: Callable[[], Published]) -> None:
        self._folder, self._result = folder, Attempt()
        self._thread = threading.Thread(target=self._run, args=[publish], name="lengthwise-publish", daemon=True)
        self._thread.start()

    def _run(self, publish: Callable[[], Published]) -> None:
        self._result = attempt(self._folder, publish)

    def wait(self, seconds: float) -> Attempt:
        """Return the result; after this many seconds without one, the problem that it took too long."""
        self._thread.join(seconds)
        if not self._thread.is_alive():
            return self._result
        late = f"publishing to MLflow did not end in {seconds:.0f} s"
        return Attempt(problem=f"{late}; complete it with: {command('publish', self._folder)}")
