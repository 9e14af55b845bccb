"""A local Ray, started by a thread of its own while the command imports and plans. Ray is imported only then.

Starting Ray mostly means waiting for its daemons. Linux kills the daemons when the thread that started them ends, so
the thread lives until Ray is no longer needed.
"""

import atexit
import logging
import os
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from orchestrator.code.packages import LENGTHWISE_FOLDER
from orchestrator.code.user_code import is_installed
from orchestrator.machine.processors import count_cores, list_mig_parts
from orchestrator.running.driving.interrupts import exit_at_once
from orchestrator.running.with_ray.processes import guard_processes, kill_processes, mark_processes
from orchestrator.running.with_ray.scratch import make_scratch_folder
from search_spaces import Resources

PREFIX = "lw-ray-"  # short, as the paths of Ray's sockets must be
MAX_PARENT_CHARACTERS = 24  # a socket path may have 103 characters; PREFIX and Ray's file names use 79
OBJECT_STORE_BYTES = 256 * 2**20  # an evaluation of a pack is well under a megabyte
QUIET = {"logging_level": logging.ERROR, "log_to_driver": False}


class LocalRay:
    """Ray without dashboard on this machine, in a folder of its own; it begins at once."""

    def __init__(self) -> None:
        self._problem: BaseException | None = None
        self._is_interrupted = False
        self._started = threading.Event()
        self._ending = threading.Event()
        with ExitStack() as exit_stack:
            folder = exit_stack.enter_context(make_scratch_folder(PREFIX, _choose_parent(), kill_processes))
            exit_stack.enter_context(guard_processes(folder))
            self._contexts = exit_stack.pop_all()
        self.folder = folder
        threading.Thread(target=self._run, args=[folder], name="lengthwise-ray", daemon=True).start()

    def _run(self, folder: Path) -> None:
        """Start Ray, then keep the thread alive until `end`: Linux kills Ray's daemons with it."""
        try:
            set_environment()
            import ray

            logging.getLogger("ray").setLevel(logging.ERROR)  # it warns of being started by a thread
            settings = {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES, **QUIET}
            if mig_parts := list_mig_parts():
                settings["num_gpus"] = len(mig_parts)  # Ray itself counts cards
            with mark_processes(folder):
                settings |= {"num_cpus": count_cores(), "job_config": make_job_config()}
                ray.init(address="local", _temp_dir=str(folder), **settings)
        except BaseException as error:
            self._problem = error
        self._started.set()
        self._ending.wait()

    def wait(self) -> None:
        """Return when this process is connected to it; raises what `ray.init` raises."""
        try:
            self._started.wait()
        except KeyboardInterrupt:
            self._is_interrupted = True
            raise
        if self._problem is not None:
            self.end()
            raise self._problem

    def end(self) -> None:
        """Disconnect from Ray and end its processes. Ends the driver if the wait for the start was interrupted.

        The interpreter cannot exit cleanly while a thread starts Ray: it may crash, or take a minute.
        """
        if self._is_interrupted and not self._started.is_set():
            exit_at_once()  # the guardian kills the remaining processes
        self._started.wait()
        if self._problem is None:
            import ray

            ray.shutdown()
        self._ending.set()
        self._contexts.close()
        _local_rays.remove(self)


_local_rays: list[LocalRay] = []


def start_local_ray(resources: Resources) -> None:
    """Start a local Ray now if the sweep is certain to use one."""
    if resources.scheduler == "ray" and not os.environ.get("RAY_ADDRESS"):
        with suppress(OSError):  # raised again by `get_local_ray` once Ray is needed
            get_local_ray()


def get_local_ray() -> LocalRay:
    """Return the local Ray whose start has begun, otherwise start one. The caller ends it."""
    if not _local_rays:
        atexit.register(end_unused_ray)  # if the command is refused, or interrupted before it uses Ray
        _local_rays.append(LocalRay())
    return _local_rays[-1]


def end_unused_ray() -> None:
    """End a started local Ray at the end of the command, unless it has been ended already."""
    if _local_rays:
        logging.disable()  # Ray logs errors if the interpreter exits during its start
    while _local_rays:
        _local_rays[-1].end()


@contextmanager
def make_tune_folder() -> Iterator[Path]:
    """Make a folder for Tune that ends with this process: inside the folder of a local Ray, or with a guardian."""
    if _local_rays:
        yield Path(tempfile.mkdtemp(prefix="tune-", dir=_local_rays[-1].folder))
        return
    with make_scratch_folder() as folder, guard_processes(folder):
        yield folder


def _choose_parent() -> Path:
    """Return the parent of Ray's folder: the temp directory, or /tmp if paths in it are too long for sockets."""
    parent = Path(os.environ.get("RAY_TMPDIR") or tempfile.gettempdir())
    return parent if len(str(parent)) <= MAX_PARENT_CHARACTERS else Path("/tmp")


def make_job_config() -> Any:
    """Return Ray's settings of this driver: workers import lengthwise from its folder, not from the current one."""
    from ray.job_config import JobConfig

    class Config(JobConfig):
        def _runtime_env_has_working_dir(self) -> bool:
            """Keep Ray from putting the current folder and the script's folder first on the path of its workers."""
            return True

    return Config(_py_driver_sys_path=[] if is_installed(LENGTHWISE_FOLDER) else [str(LENGTHWISE_FOLDER)])


def set_environment() -> None:
    """Set the environment variables that Ray reads when it is imported and started."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_DEDUP_LOGS", "1")
