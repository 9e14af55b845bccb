"""A local Ray, started by a thread of its own while the command imports and plans. Imports nothing until then.

Starting Ray is mostly waiting for its daemons. They are tied to the thread that starts them: Linux kills them when it
ends, so it stays until they are not needed any more.
"""

import atexit
import logging
import os
import threading

from search_spaces import Resources

OBJECT_STORE_BYTES = 256 * 2**20  # an evaluation of a pack is well under a megabyte
QUIET = {"logging_level": logging.ERROR, "log_to_driver": False}


class LocalRay:
    """Ray without dashboard on this machine; it begins at once."""

    def __init__(self) -> None:
        self._problem: BaseException | None = None
        self._started, self._over = threading.Event(), threading.Event()
        threading.Thread(target=self._run, name="lengthwise-ray", daemon=True).start()

    def _run(self) -> None:
        try:
            set_environment()
            import ray

            logging.getLogger("ray").setLevel(logging.ERROR)  # it warns of being started by a thread
            ray.init(address="local", include_dashboard=False, object_store_memory=OBJECT_STORE_BYTES, **QUIET)
        except BaseException as error:
            self._problem = error
        self._started.set()
        self._over.wait()

    def wait(self) -> None:
        """Return when this process is connected to it; raises what `ray.init` raises."""
        self._started.wait()
        if self._problem is not None:
            raise self._problem

    def end(self) -> None:
        """Leave it and end its processes."""
        self._started.wait()
        if self._problem is None:
            import ray

            ray.shutdown()
        self._over.set()


_begun: list[LocalRay] = []


def begin_for(resources: Resources) -> None:
    """Start a local Ray now where a sweep is certain to use one."""
    if resources.scheduler == "ray" and not os.environ.get("RAY_ADDRESS"):
        _begun.append(LocalRay())
        atexit.register(end_unused)  # of a command that is refused


def begun() -> LocalRay:
    """The local Ray that was begun, otherwise a new one. The caller ends it."""
    return _begun.pop() if _begun else LocalRay()


def end_unused() -> None:
    """End a local Ray that was begun and that nobody has taken."""
    while _begun:
        _begun.pop().end()


def set_environment() -> None:
    """What Ray reads from the environment when it is imported and started."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS", "1")
