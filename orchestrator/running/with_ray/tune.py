"""The interface to Ray Tune: hands packs to Tune and passes its events to a driver; knows nothing of sweeps.

Some exceptions in a callback make Tune end the whole run; others it hides. An exception of the driver is always raised
by `RayScheduler.run`, unchanged.
"""

import logging
import os
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

from ray import cloudpickle, tune
from ray.air._internal import usage
from ray.exceptions import ActorUnavailableError, RayActorError, RayTaskError
from ray.tune.execution import class_cache
from ray.tune.progress_reporter import TrialProgressCallback
from ray.tune.search import Searcher

from orchestrator.errors import OutOfSpace
from orchestrator.plan.packing.packs import Cluster
from orchestrator.running.pack.protocol import Driver, DriverStopped, deliver_message, shield_driver
from orchestrator.running.pack.retries import WORKER_DIED, Death, Retries, describe_exception
from orchestrator.running.pack.train_pack import PackRaised, train_pack_on_ray
from orchestrator.running.with_ray.nodes import ClusterCapacity, NodeMemory, make_pack_resources
from orchestrator.running.with_ray.start import make_tune_folder
from search_spaces import Resources

MAX_LOST_NODES = 20  # per pack, beside its retries; after more losses the pack itself may be killing nodes
PASSED_VARIABLES = {"RAY_CHDIR_TO_TRIAL_DIR"}  # Tune would also pass AWS keys to workers, and Ray logs them


class RayScheduler:
    """Runs every pack as a trial of Ray Tune; workers grow and shrink with the cluster in RAY_ADDRESS."""

    def __init__(self, resources: Resources, connected: Cluster) -> None:
        self.cluster = replace(connected, workers=min(connected.workers, resources.workers or connected.workers))
        self._resources = resources

    def run(self, driver: Driver) -> None:
        """Run packs, one on each of the workers, until the driver has none left.

        Raises what the driver raises, and OutOfSpace.
        """
        # Only clusters grow, and only their nodes may have GPUs of other sizes than this machine.
        resources, may_grow = self._resources, bool(os.environ.get("RAY_ADDRESS"))
        pack_resources = make_pack_resources(resources.cpus, resources.gpus)
        memory = NodeMemory(pack_resources) if may_grow and resources.gpus else None
        workers = ClusterCapacity(
            pack_resources, self.cluster.workers, max_workers=resources.workers, may_grow=may_grow, memory=memory
        )
        run_packs_on_ray(driver, workers, resources)


def run_packs_on_ray(driver: Driver, workers: ClusterCapacity, resources: Resources) -> None:
    """Run packs in Tune, one on each of the workers, until the driver has none left."""
    # Every pack is a trial; the searcher takes packs from the driver until none is left.
    _silence_tune()
    with shield_driver(driver) as shielded, make_tune_folder() as scratch:
        tuner = tune.Tuner(
            tune.with_resources(train_pack_on_ray, {"cpu": resources.cpus, "gpu": resources.gpus}),
            tune_config=tune.TuneConfig(
                search_alg=PackSearcher(shielded, workers),
                num_samples=-1,
                reuse_actors=True,
                trial_name_creator=lambda trial: trial.config["pack_id"],
                trial_dirname_creator=lambda trial: trial.config["pack_id"],
            ),
            run_config=tune.RunConfig(
                name="packs",
                storage_path=str(scratch),
                callbacks=[TuneEventCallback(shielded, workers, Retries(resources.retries))],
                failure_config=tune.FailureConfig(max_failures=resources.retries),
                verbose=0,
            ),
        )
        tuner.fit()


def _silence_tune() -> None:
    """Turn off Tune's own loggers, tables, snapshots and signal handlers, because here it only schedules."""
    os.environ.update(
        TUNE_DISABLE_AUTO_CALLBACK_LOGGERS="1",  # a pack's curves as JSON and CSV cost more than training it
        TUNE_DISABLE_SIGINT_HANDLER="1",  # the sweep has its own, for SIGTERM too
        TUNE_PRINT_ALL_TRIAL_ERRORS="0",
        TUNE_GLOBAL_CHECKPOINT_S="1e9",  # Tune's own snapshot is never read
        TUNE_MAX_PENDING_TRIALS_PG="256",  # otherwise workers start one after another
        TUNE_WARN_THRESHOLD_S="30",
        RAY_AIR_NEW_OUTPUT="0",  # the new output prints a table of Tune's own settings even when told to be silent
        RAY_CHDIR_TO_TRIAL_DIR="0",
    )
    usage.tag_callbacks = lambda callbacks: False  # it would import MLflow for usage statistics, which are off
    class_cache.ENV_VARS_TO_PROPAGATE = PASSED_VARIABLES
    for name in ("ray.tune", "ray.train", "ray.air"):
        logging.getLogger(name).setLevel(logging.CRITICAL)  # Ray's log would repeat the errors that the driver reports


class _NotPickled:
    """Keeps the driver out of Tune's snapshot, which pickles everything that Tune is given."""

    def __init__(self, driver: Driver, workers: ClusterCapacity) -> None:
        super().__init__()
        self.driver = driver
        self.workers = workers

    def __getstate__(self) -> dict[str, Any]:
        return {}


class PackSearcher(_NotPickled, Searcher):
    """Suggests packs in the driver's order, one for each worker; while all workers have a pack, Tune has to ask again.

    No pack waits inside Tune for a free worker, because it could not be repacked there. The search is not finished
    while packs run, because smaller packs may replace them.
    """

    def __init__(self, driver: Driver, workers: ClusterCapacity) -> None:
        super().__init__(driver, workers)
        self._running = set[str]()

    def suggest(self, trial_id: str) -> Any:
        """Return the next pack as the configuration of a trial."""
        if len(self._running) >= self.workers.count:
            return None
        if (next_pack := self.driver.take_next_pack()) is None:
            return Searcher.FINISHED if not self._running and self.driver.has_ended() else None
        pack_id, work = next_pack
        self._running.add(trial_id)
        return {"pack_id": pack_id, "work": work}

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        """Make room for another pack; `TuneEventCallback.on_trial_complete` reports the end to the driver."""
        self._running.discard(trial_id)

    def save(self, checkpoint_path: str) -> None:
        """Write the file that Tune insists on; nothing is ever restored from it."""
        Path(checkpoint_path).write_text("null")

    def restore(self, checkpoint_path: str) -> None:
        """Restore nothing."""


class TuneEventCallback(_NotPickled, TrialProgressCallback):
    """Passes Tune's events to the driver, and removes large contents from the trials that Tune keeps.

    It replaces Tune's own progress callback, which prints even when told to be silent.
    """

    def __init__(self, driver: Driver, workers: ClusterCapacity, retries: Retries) -> None:
        super().__init__(driver, workers)
        self._retries = retries
        self._lost_nodes = Counter[str]()
        self._final_deaths: dict[str, Death] = {}  # packs that must not be retried; Tune counts them as complete
        self._replaced_packs = set[str]()  # packs that ran out of memory and were replaced by smaller ones

    def on_step_begin(self, iteration: int, trials: Any, **info: Any) -> None:
        """Call the driver's `tick` about ten times a second, and `on_resize` if workers or their memory changed."""
        self.driver.tick()
        if self.workers.has_changed(0 if self.driver.has_ended() else len(self.driver.queue)):
            self.driver.on_resize(self.workers.count, self.workers.bytes_per_worker)

    def on_trial_start(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        """Report to the driver that a worker has the pack."""
        self.driver.on_hand_out(trial.config["pack_id"])

    def on_trial_result(self, iteration: int, trials: Any, trial: Any, result: Any, **info: Any) -> None:
        """Pass the messages of `train_pack_on_ray` to the driver; decide whether Tune may retry after an exception.

        The worker raises the exception next, unless it must not be retried. If `max_failures` is 0 by then, Tune ends
        the pack.
        """
        pack_id = trial.config["pack_id"]
        for kind, content in result.pop("messages"):
            deliver_message(self.driver, pack_id, kind, content)
        if "death" in result:
            death = Death(**result.pop("death"))
            if death.retry == "never":
                self._final_deaths[pack_id] = death
            elif death.out_of_memory and self.driver.repack_after_shortage(pack_id, death.message):
                self._replaced_packs.add(pack_id)
                trial.max_failures = 0  # the process of the worker ends with all its memory
            elif not self._retries.may_retry(pack_id, death):
                trial.max_failures = 0

    def on_trial_recover(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        """Report that the pack died and that Tune has queued it again; set how often Tune may do so.

        A lost node uses up none of the pack's retries.
        """
        pack_id, error = trial.config["pack_id"], _read_error(trial)
        death = make_ray_death(error)
        if is_node_loss(error) and self._lost_nodes[pack_id] < MAX_LOST_NODES:
            self._lost_nodes[pack_id] += 1
        else:
            self._retries.decide_retry(pack_id, death)

        # Tune counts every death, so the limit grows by the lost nodes.
        trial.max_failures = self._lost_nodes[pack_id] + self._retries.max_retries
        self.driver.on_retry(pack_id, death.message, death.trace)

    def on_trial_complete(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        """Report the end of the pack; drop its work, because Tune keeps every trial."""
        pack_id = trial.config["pack_id"]
        if death := self._final_deaths.pop(pack_id, None):
            self.driver.on_failure(pack_id, death.message, death.trace)
        else:
            self.driver.on_complete(pack_id)
        trial.config["work"] = ""

    def on_trial_error(self, iteration: int, trials: Any, trial: Any, **info: Any) -> None:
        """Report a pack that has no retries left as failed, unless smaller packs have replaced it."""
        if trial.config["pack_id"] in self._replaced_packs:
            return
        death = make_ray_death(_read_error(trial))
        self.driver.on_failure(trial.config["pack_id"], death.message, death.trace)


def _read_error(trial: Any) -> BaseException | None:
    """Return the exception that ended a worker, from the file that Tune has just written into the scratch folder.

    Raises DriverStopped if the disk is full, because a full disk stops the run, not only the pack.
    """
    path = trial.pickled_error_file
    if path is None or not Path(path).is_file():
        return None
    error = cause = cloudpickle.loads(Path(path).read_bytes())
    while isinstance(cause, RayTaskError) and isinstance(cause.cause, BaseException):
        cause = cause.cause
    if isinstance(cause, OutOfSpace):
        raise DriverStopped(cause)
    return error if isinstance(error, BaseException) else None


_FAILED_IMPORT = re.compile(r"failed to import on the worker.*?(Traceback .*?)\n\n", re.DOTALL)
_TRACE_LOCATION = re.compile(r'File "([^"]+)", line (\d+)')


def is_node_loss(error: BaseException | None) -> bool:
    """Return whether Ray reports that a worker was lost with its node, not killed alone.

    If a machine disappears at once, Ray only reports that the worker cannot be reached.
    """
    died = isinstance(error, RayActorError) and "its node has died" in str(error)
    return died or isinstance(error, ActorUnavailableError)


def make_ray_death(error: BaseException | None) -> Death:
    """Return the death by an error that Ray reports, with the line of code that raised it and the traceback."""
    # The worker process ended.
    if is_node_loss(error):
        return Death(message="the worker was lost with its node, or cannot be reached", retry="always")
    if isinstance(error, RayActorError):
        if failed := _FAILED_IMPORT.search(str(error)):
            trace = failed[1]
            file, line = _TRACE_LOCATION.findall(trace)[-1]
            return Death(message=f"{trace.splitlines()[-1]} ({file}:{line})", trace=trace, retry="always")
        return Death(message=WORKER_DIED, retry="always")

    # Ray wraps an exception of a worker once per task; only the innermost one is the pack's.
    is_ray_error = not isinstance(error, RayTaskError)
    locations: list[tuple[str, str]] = []  # of every frame of the innermost exception
    trace = None
    while isinstance(error, RayTaskError) and isinstance(error.cause, BaseException):
        trace, locations = str(error), _TRACE_LOCATION.findall(str(error)) or locations
        error = error.cause

    # An exception of the pack, no exception at all, or an error of Ray.
    if isinstance(error, PackRaised):
        return Death(message=error.message, trace=error.trace, retry=error.retry)
    if error is None:
        return Death(message="the worker died without an error message", retry="always")
    return Death(message=describe_exception(error, locations), trace=trace, retry="always" if is_ray_error else "once")
