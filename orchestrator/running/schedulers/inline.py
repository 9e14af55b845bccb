"""The scheduler that needs no Ray: packs run one after the other in this process. It knows nothing of sweeps.

For tests, for sweeps that are shorter than the start of Ray, and for debugging: a breakpoint in a task works. A crash
ends this process, because there is no worker process; an exception in a pack costs only the pack.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import psutil
from threadpoolctl import ThreadpoolController

from orchestrator.errors import OutOfSpace
from orchestrator.interface.work import PackWork
from orchestrator.machine.exhaustion import convert_full_disk_errors
from orchestrator.machine.processors import compute_smallest_share, free_memory, read_gpu_memories
from orchestrator.plan.packing.packs import Cluster
from orchestrator.record.files.recorded_modules import list_imported_files, map_copies
from orchestrator.running.pack.protocol import Driver, DriverStopped, deliver_message, shield_driver
from orchestrator.running.pack.retries import Death, Retries, make_death
from orchestrator.running.pack.train_pack import (
    CACHE_VARIABLE,
    PackReporter,
    decode_work,
    train_pack,
    use_inductor_cache,
)
from orchestrator.running.pack.watchdog import HeartbeatTimeout, LocalWatchdog, prepare_stack_file
from search_spaces import Resources


def describe_process(gpus: float = 0.0) -> Cluster:
    """Return this process as a cluster of one worker, with the memory of the machine or of the GPU that packs need."""
    memory = compute_smallest_share(read_gpu_memories(), gpus) if gpus else float(psutil.virtual_memory().total)
    return Cluster(workers=1, bytes_per_worker=memory, description="this process")


class InlineScheduler:
    """Runs packs one after the other in this process."""

    def __init__(self, resources: Resources) -> None:
        self.cluster = describe_process(resources.gpus)
        self._max_retries = resources.retries

    def run(self, driver: Driver) -> None:
        """Run packs until the driver has none left. Raises what the driver raises, and OutOfSpace."""
        retries = Retries(self._max_retries)
        pack_to_retry = None
        with shield_driver(driver) as shielded:
            while (pack := pack_to_retry or shielded.take_next_pack()) is not None:
                pack_id, encoded_work = pack
                work = decode_work(encoded_work)
                pack_to_retry = None
                shielded.on_hand_out(pack_id)
                death = _train_pack_here(shielded, pack_id, work)
                if death is None:
                    shielded.on_complete(pack_id)
                    continue

                # Free memory only here: until `_train_pack_here` has returned, the exception keeps the tensors alive.
                if death.out_of_memory:
                    free_memory()
                shielded.tick()  # raises KeyboardInterrupt for a signal that a library swallowed
                if retries.report_death(shielded, pack_id, death):
                    pack_to_retry = pack
        if not driver.has_ended():
            raise RuntimeError("no pack is running, but the driver has packs left and returns none")


def _train_pack_here(driver: Driver, pack_id: str, work: PackWork) -> Death | None:
    """Train a pack in this process; return its death, None if it has ended without an error.

    This is a separate function because an exception keeps the pack's tensors alive until the function that caught it
    returns.
    """

    def send(kind: str, content: Any) -> None:
        """Deliver a message to the driver, which may redraw its display then."""
        deliver_message(driver, pack_id, kind, content)
        driver.tick()

    try:
        with (
            convert_full_disk_errors(Path(work.folder)),
            LocalWatchdog(work.heartbeat_timeout, prepare_stack_file(work)) as watchdog,
            use_worker_settings(work.cpus),
        ):
            watchdog.beat()
            train_pack(work, PackReporter(work, send, watchdog, progress_interval=0.0))
    except (KeyboardInterrupt, DriverStopped, OutOfSpace):
        raise
    except BaseException as error:
        death = make_death(error, list_imported_files(work.modules), map_copies(work.modules))
        # Retried like a worker process that its watchdog has killed.
        return replace(death, retry="always") if isinstance(error, HeartbeatTimeout) else death
    return None


@lru_cache(maxsize=1)
def _find_libraries(modules: int) -> ThreadpoolController:
    """Return the loaded libraries with threads; they are looked for again once the number of modules has changed."""
    return ThreadpoolController()


@contextmanager
def use_worker_settings(cpus: int) -> Iterator[None]:
    """Use `cpus` threads, and the compile cache of worker processes; restore both afterwards."""
    import torch

    threads, cache = torch.get_num_threads(), os.environ.get(CACHE_VARIABLE)
    use_inductor_cache()
    torch.set_num_threads(cpus)
    try:
        with _find_libraries(len(sys.modules)).limit(limits=cpus, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(threads)
        if cache is None:
            os.environ.pop(CACHE_VARIABLE, None)
