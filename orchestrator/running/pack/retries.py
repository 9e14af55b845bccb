"""Describe why a pack died, and decide what follows: it is retried, repacked into smaller packs, or fails.

how a pack dies                                    where it becomes a `Death`
an exception in a worker                           `make_death`
a worker process that ends, also by its watchdog   `handle_dead_worker` of `schedulers.local`
what Ray reports                                   `with_ray.tune.make_ray_death`

what follows                                       what the driver then does
memory ran out, and smaller packs replace it       `SweepDriver.repack_after_shortage`
it is retried, from its newest checkpoint          `SweepDriver.on_retry`
its members are failed seeds, the sweep continues  `SweepDriver.on_failure`

`Retries.report_death` decides. On Ray, Tune restarts the trial: `Retries.decide_retry` counts, and `TuneEventCallback`
replaces the pack or records its end. The driver records every death.
"""

import traceback
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any

from orchestrator.machine.exhaustion import is_failed_allocation
from orchestrator.program.exit_causes import ProgramEnded, RetryRule
from orchestrator.running.pack.protocol import Driver

WORKER_DIED = "the worker process died: it was killed, or memory ran out"
MAX_TRACE = 20_000  # characters, from the end of a traceback
_RUNNING_FOLDER = str(Path(__file__).parents[1])


@dataclass(frozen=True, kw_only=True)
class Death:
    """Why a pack died: one line, the traceback of an exception, and whether a retry may succeed.

    `retry` is "once" after most exceptions, because the same exception is likely, and "always" if the pack was killed;
    a pack that was killed after an exception is still retried.
    `out_of_memory`: whether a smaller pack may succeed.
    """

    message: str
    trace: str | None = None
    retry: RetryRule = "once"
    out_of_memory: bool = False


class Retries:
    """Counts the deaths of packs and decides which are retried: at most `max_retries` times (`Death.retry`)."""

    def __init__(self, max_retries: int) -> None:
        self.max_retries = max_retries
        self._deaths = Counter[str]()
        self._exceptions = Counter[str]()  # by pack_id: deaths that allow one retry

    def report_death(self, driver: Driver, pack_id: str, death: Death) -> bool:
        """Report a death to the driver, and return whether the pack is retried now.

        It is not retried if it has died too often, or if smaller packs replace it because memory ran out.
        """
        if death.out_of_memory and driver.repack_after_shortage(pack_id, death.message):
            return False
        is_retried = self.decide_retry(pack_id, death)
        (driver.on_retry if is_retried else driver.on_failure)(pack_id, death.message, death.trace)
        return is_retried

    def decide_retry(self, pack_id: str, death: Death) -> bool:
        """Count a death of the pack, and return whether it is retried."""
        is_retried = self.may_retry(pack_id, death)
        self._deaths[pack_id] += 1
        self._exceptions[pack_id] += death.retry == "once"
        return is_retried

    def may_retry(self, pack_id: str, death: Death) -> bool:
        """Return whether the pack would be retried after this death, without counting it."""
        is_repeated = death.retry == "once" and self._exceptions[pack_id] > 0
        return death.retry != "never" and not is_repeated and self._deaths[pack_id] < self.max_retries


def make_death(
    error: BaseException, user_files: Collection[str] = (), copies: Mapping[str, str] = MappingProxyType({})
) -> Death:
    """Return the death by an exception, with the line that raised it; `user_files` are the files of the user's modules.

    Exceptions from these files are not retried, except OSError and exceptions for lack of memory. Packs run copies of
    the user's files; message and traceback name the files that the user edits, by `copies` (`map_copies`).
    """
    if isinstance(error, ProgramEnded):
        trace = None if error.trace is None else _name_originals(error.trace, copies)
        return Death(message=_name_originals(error.message, copies), trace=trace, retry=error.retry)

    # An exception from the user's code is likely to be raised again; the state of the machine may change.
    frames = traceback.extract_tb(error.__traceback__)
    user_frames = [frame for frame in frames if frame.filename in user_files]
    is_transient = not user_frames or isinstance(error, OSError)
    is_out_of_memory = is_failed_allocation(error)
    message = describe_exception(error, [(frame.filename, frame.lineno) for frame in user_frames or frames])
    trace = "".join(traceback.format_exception(type(error), error, _cut_traceback(error)))
    return Death(
        message=_name_originals(message, copies),
        trace=_name_originals(trace, copies)[-MAX_TRACE:],
        retry="once" if is_out_of_memory or is_transient else "never",
        out_of_memory=is_out_of_memory,
    )


def _name_originals(text: str, copies: Mapping[str, str]) -> str:
    """Return a text with the user's files in place of their copies; other paths in a folder of copies stay."""
    for copy, original in copies.items():
        text = text.replace(copy, original)
    return text


def _cut_traceback(error: BaseException) -> TracebackType | None:
    """Return the traceback without the scheduler's frames, so that it is the same under all schedulers."""
    trace = error.__traceback__
    while trace and trace.tb_next and trace.tb_frame.f_code.co_filename.startswith(_RUNNING_FOLDER):
        trace = trace.tb_next
    return trace


def describe_exception(error: BaseException, locations: Sequence[tuple[str, Any]]) -> str:
    """Return an exception in one line, with the last of its (file, line) `locations` outside libraries.

    (ValueError("no"), [("mine.py", 3), ("/lib/python3.11/site.py", 9)]) -> "ValueError: no (mine.py:3)"
    """
    user_locations = [(file, line) for file, line in locations if "/lib/python" not in file] or locations
    where = f" ({user_locations[-1][0]}:{user_locations[-1][1]})" if user_locations else ""
    lines = str(error).strip().splitlines()
    return (f"{type(error).__name__}: {lines[-1]}" if lines else type(error).__name__) + where
