"""What a scheduler asks a driver and tells it, and how a death is worded. All schedulers stand behind this; no Ray."""

import traceback
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

LONGEST_TRACE = 20_000  # characters that are kept of a traceback: the end of it, where the exception was raised
_HERE = str(Path(__file__).parents[1])


@dataclass(frozen=True, kw_only=True)
class Death:
    """What ended a pack: in one line, its traceback where there is one, and whether another attempt might do better."""

    said: str
    trace: str | None = None
    again: bool = True


class Driver(Protocol):
    """What the scheduler asks and tells. All calls come from the main thread, one at a time."""

    def next_pack(self) -> tuple[str, str] | None:
        """A pack to run as (pack_id, work), None while there is none to hand out."""

    def all_handed_out(self) -> bool:
        """Whether there will never be another pack."""

    def tick(self) -> None:
        """Called about ten times a second."""

    def started(self, pack_id: str) -> None:
        """A worker begins with the pack, for the first time or again."""

    def began(self, pack_id: str, environment: dict[str, Any]) -> None:
        """Called with the worker's environment (`environment.environment`), before its first evaluation."""

    def evaluated(self, pack_id: str, evaluation: bytes) -> None:
        """Curves of the pack at one step; the worker waits until this returns."""

    def progressed(self, pack_id: str, progress: dict[str, Any]) -> None:
        """Where the pack is."""

    def noticed(self, pack_id: str, text: str) -> None:
        """A sentence for the user."""

    def retried(self, pack_id: str, error: str, trace: str | None) -> None:
        """The pack died and will be tried again; `trace` is the traceback of an exception."""

    def completed(self, pack_id: str) -> None:
        """The pack has trained to its end."""

    def failed(self, pack_id: str, error: str, trace: str | None) -> None:
        """The pack died and will not be tried again; `trace` is the traceback of an exception."""


class DriverStopped(BaseException):
    """Carries an exception of the driver past every `except Exception` between it and the scheduler."""


def guarded(call: Callable[..., Any], *arguments: Any) -> Any:
    """What the driver answers; its exceptions leave as DriverStopped, so that none is taken for the death of a pack."""
    try:
        return call(*arguments)
    except Exception as error:
        raise DriverStopped(error) from error


def explain(error: BaseException, own: Collection[str] = ()) -> Death:
    """What ended a pack, with the line of code where it was raised; `own` are the files of the user's own modules.

    An exception that passed through one of these will come again: there is no other attempt. What the machine may have
    caused, its memory or its disk, may not come again.
    """
    frames = traceback.extract_tb(error.__traceback__)
    full = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    by_machine = full or isinstance(error, OSError)
    said = worded(error, [(frame.filename, frame.lineno) for frame in frames])
    return Death(
        said=f"{said}; in a new sweep a smaller resources.pack trains fewer members at once" if full else said,
        trace="".join(traceback.format_exception(type(error), error, _from_the_pack(error)))[-LONGEST_TRACE:],
        again=by_machine or not any(frame.filename in own for frame in frames),
    )


def _from_the_pack(error: BaseException) -> TracebackType | None:
    """The traceback without the scheduler's own frames, so that all schedulers keep the same."""
    trace = error.__traceback__
    while trace and trace.tb_next and trace.tb_frame.f_code.co_filename.startswith(_HERE):
        trace = trace.tb_next
    return trace


def worded(error: BaseException, places: Sequence[tuple[str, Any]]) -> str:
    """An exception in one line, with the last of its (file, line) places that is not in a library.

    worded(ValueError("no"), [("mine.py", 3), ("/lib/python3.11/site.py", 9)]) -> "ValueError: no (mine.py:3)"
    """
    own = [place for place in places if "/lib/python" not in place[0]] or places
    where = f" ({own[-1][0]}:{own[-1][1]})" if own else ""
    text = str(error).strip().splitlines()
    return (f"{type(error).__name__}: {text[-1]}" if text else type(error).__name__) + where
