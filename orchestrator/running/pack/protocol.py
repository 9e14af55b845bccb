"""The interface between driver and schedulers. Imports nothing of Ray."""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from orchestrator.plan.packing.packs import Cluster


class ChildImportError(Exception):
    """A child process could not import its module: one line with the file that raised it, and the traceback."""

    def __init__(self, message: str, trace: str) -> None:
        self.message = message
        self.trace = trace
        super().__init__(message, trace)


class Driver(Protocol):
    """The callbacks of a scheduler, made from the main thread, one at a time."""

    @property
    def queue(self) -> Collection[str]:
        """The pack_ids of the packs that have not been handed out."""

    def take_next_pack(self) -> tuple[str, str] | None:
        """Take a pack to run, as (pack_id, work); None if no pack can be handed out now."""

    def has_ended(self) -> bool:
        """Return whether there will be no more packs."""

    def tick(self) -> None:
        """Called about ten times a second."""

    def on_resize(self, workers: int, bytes_per_worker: float | None = None) -> None:
        """Called when the number of packs that can run at once, or the memory of each, has changed.

        bytes_per_worker: None while it is the same as in the first plan.
        """

    def on_hand_out(self, pack_id: str) -> None:
        """Called when a worker gets the pack, for the first time or again."""

    def on_environment(self, pack_id: str, environment: dict[str, Any]) -> None:
        """Called with the worker's environment (`environment.read_environment`), before its first evaluation."""

    def on_evaluation(self, pack_id: str, evaluation: bytes) -> None:
        """Called with the curves of the pack at one step; the worker waits until this returns."""

    def on_progress(self, pack_id: str, progress: dict[str, Any]) -> None:
        """Called with the progress of the pack."""

    def on_notice(self, pack_id: str, text: str) -> None:
        """Called with a sentence for the user."""

    def on_lost_worker(self, pack_id: str, error: str) -> None:
        """Called when a worker has died before it began the pack, and another is started; this uses up no retry."""

    def repack_after_shortage(self, pack_id: str, error: str) -> bool:
        """Called before a pack that ran out of memory is retried; returns whether it is repacked instead."""

    def on_retry(self, pack_id: str, error: str, trace: str | None) -> None:
        """Called when the pack has died and will be retried; `trace` is the traceback of an exception."""

    def on_complete(self, pack_id: str) -> None:
        """Called when a worker has ended the pack without an error: trained, or stopped after an evaluation."""

    def on_failure(self, pack_id: str, error: str, trace: str | None) -> None:
        """Called when the pack has died and will not be retried; `trace` is the traceback of an exception."""


class Scheduler(Protocol):
    """A started scheduler, and the cluster whose workers train the packs."""

    cluster: "Cluster"

    def run(self, driver: Driver) -> None:
        """Run packs until the driver has none left. Raises what the driver raises, and OutOfSpace."""


class DriverStopped(BaseException):
    """Carries an exception of the driver past every `except Exception` between it and the scheduler."""


class _ShieldedDriver:
    """A driver whose exceptions are raised as DriverStopped."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._driver, name)
        return partial(self._call, attribute) if callable(attribute) else attribute

    def _call(self, call: Callable[..., Any], *arguments: Any) -> Any:
        """Return the result of a call to the driver."""
        try:
            return call(*arguments)
        except Exception as error:
            raise DriverStopped(error) from error


@contextmanager
def shield_driver(driver: Driver) -> Iterator[Driver]:
    """Yield the driver for a block that catches exceptions of packs; exceptions of the driver are raised unchanged."""
    try:
        yield cast(Driver, _ShieldedDriver(driver))
    except DriverStopped as stopped:
        raise stopped.args[0] from stopped.args[0].__cause__


def deliver_message(driver: Driver, pack_id: str, kind: str, content: Any) -> None:
    """Call the driver's method for a message that a worker sends while it trains (`train_pack.PackReporter`)."""
    match kind:
        case "environment":
            driver.on_environment(pack_id, content)
        case "evaluation":
            driver.on_evaluation(pack_id, content)
        case "progress":
            driver.on_progress(pack_id, content)
        case "notice":
            driver.on_notice(pack_id, content)
        case _:
            raise ValueError(f"a worker sent a message of the unknown kind {kind!r}")
