"""The end of a sweep, made ready while it runs: a process that has imported what draws and what publishes.

It is a fork of a host of its own. Where it cannot be had, or dies, the driver does the work.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from rich.console import Console

from orchestrator.errors import LengthwiseError
from orchestrator.running.hosts.host import Host, begun, closing_kind
from orchestrator.running.hosts.worker_host import CLOSE, LATER
from orchestrator.tracking import publisher
from orchestrator.tracking.published import Published
from search_spaces import SweepSpec

PATIENCE = 60.0  # seconds from one sign of work to the next, where nothing is published; publishing gives none


@dataclass
class Closed:
    """What the process has answered: whether it has printed and drawn, and its last pass of publishing."""

    said: bool = False
    drawn: bool = False
    published: Published | None = None
    problem: str | None = None

    @property
    def tried_to_publish(self) -> bool:
        """Whether there is anything to record of it."""
        return self.published is not None or self.problem is not None


class Closing:
    """Asks for what is drawn and published of the sweep in `folder`."""

    def __init__(self, host: Host, spec: SweepSpec, folder: Path) -> None:
        self._host, self._folder = host, folder
        section = spec.tracking
        self._tracking = {"uri": section.uri, "experiment": section.experiment} if section.enabled else None
        self._last: Connection[bytes, bytes] | None = None
        if self._tracking is not None:
            self._prepared = self._asked(LATER, "prepare")

    def publish(self) -> Published | None:
        """One pass while the sweep runs; None where nobody has made it. Raises LengthwiseError as the pass did."""
        with self._asked(LATER, "publish") as connection:
            try:
                answer = json.loads(connection.recv_bytes())
            except (EOFError, OSError):
                if self._last is not None:
                    raise LengthwiseError("the last pass has begun") from None
                return None
        if answer["problem"]:
            raise LengthwiseError(answer["problem"])
        return Published.read(answer["published"])

    def begin(self, console: Console, parameters: Mapping[str, str]) -> None:
        """Ask for the end: everything there is to be drawn, printed as on `console`, and published.

        `parameters` are those of `parameters_by_structure`.
        """
        look = {
            "width": console.width,
            "force_terminal": console.is_terminal,
            "color_system": console.color_system,
            "no_color": console.no_color,
        }
        self._last = self._asked(CLOSE, "close", look=look, encoding=console.encoding, parameters=parameters)

    def end(self, console: Console) -> Closed:
        """Print what is said and wait for the rest; what is missing then is for the caller to do."""
        found = Closed()
        while self._last is not None and not found.drawn:
            try:
                publishing = found.said and self._tracking is not None and not found.tried_to_publish
                patience = publisher.LONGEST_SECONDS if publishing else PATIENCE
                if not self._last.poll(patience):
                    if publishing:
                        found.problem = publisher.late(self._folder, patience)
                    break
                answer = json.loads(self._last.recv_bytes())
            except (EOFError, OSError):
                break
            if "said" in answer:
                found.said = True
                console.file.write(answer["said"])
            elif "drawn" in answer:
                found.drawn = True
            elif "published" in answer:
                found.published = Published.read(answer["published"]) if answer["published"] else None
                found.problem = answer["problem"]
        if self._last is not None:
            self._last.close()
        return found

    def _asked(self, role: bytes, what: str, **more: Any) -> "Connection[bytes, bytes]":
        connection = self._host.connect(role)
        request = {"do": what, "folder": str(self._folder), "tracking": self._tracking, **more}
        with suppress(OSError):  # the answer will be missing
            connection.send_bytes(json.dumps(request).encode())
        return connection


@contextmanager
def closing_for(spec: SweepSpec, folder: Path) -> Iterator[Closing]:
    """What ends the sweep in `folder`, for as long as the block."""
    host = begun(closing_kind(spec))
    try:
        yield Closing(host, spec, folder)
    finally:
        host.kill()
