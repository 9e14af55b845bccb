"""The scheduler of one machine without Ray: worker processes of its own, as many as fit.

Workers are forked from a host that has imported the engine (`children.worker_host`), so a second worker costs nothing.
Each worker has a connection of its own; if it closes, the worker has died.
"""

import sys
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path

import psutil

from orchestrator.errors import OutOfSpace
from orchestrator.machine.processors import count_cores, count_gpu_packs, list_gpu_slots, read_gpu_memories
from orchestrator.plan.packing.packs import Cluster
from orchestrator.running.pack.protocol import ChildImportError, Driver, deliver_message
from orchestrator.running.pack.retries import WORKER_DIED, Death, Retries
from orchestrator.running.pack.train_pack import decode_work
from orchestrator.running.pack.watchdog import has_timed_out
from orchestrator.running.schedulers.local_worker import decode_message
from orchestrator.text.wording import format_count
from search_spaces import Resources

_TICK_SECONDS = 0.1
_MAX_LOST_WORKERS = 3  # per pack: workers that may die, not hang, before they begin it
_LOST_WORKER_PAUSE = 0.1  # seconds after the death of such a worker

StartWorker = Callable[[], "Connection[bytes, bytes]"]


def make_local_cluster(
    cpus: int, workers: int | None = None, max_workers: int | None = None, gpus: float = 0.0
) -> Cluster:
    """Return this machine as a cluster of `workers` with equal memory, by default as many as cores and GPUs allow.

    `max_workers` is a limit if `workers` is None.
    """
    description = f"this machine with {format_count(count_cores(), 'CPU')}"
    max_on_gpus = sys.maxsize
    if gpus:
        count = len(read_gpu_memories())
        max_on_gpus = count_gpu_packs(count, gpus)
        description += f" and {format_count(count, 'GPU')}"
    workers = workers or min(max(1, min(count_cores() // cpus, max_on_gpus)), max_workers or sys.maxsize)
    memory = psutil.virtual_memory().total
    return Cluster(workers=workers, bytes_per_worker=memory / workers, description=description)


@dataclass(eq=False)
class _Worker:
    """The connection to a worker process, its GPUs (CUDA_VISIBLE_DEVICES), and the pack it trains.

    `has_begun`: whether the worker has sent a message about this pack.
    """

    connection: "Connection[bytes, bytes]"
    gpu_slot: str = ""
    pack_id: str | None = None
    work: str = ""
    has_begun: bool = False


class LocalScheduler:
    """Runs packs in worker processes of this machine; `start_worker` connects to a new one.

    Hands out packs to workers, and handles their messages and deaths, until the driver has no packs left.
    """

    driver: Driver  # set by `run`

    def __init__(self, resources: Resources, start_worker: StartWorker) -> None:
        self.cluster = make_local_cluster(resources.cpus, max_workers=resources.workers, gpus=resources.gpus)
        self.start_worker = start_worker
        self.retries = Retries(resources.retries)
        # CUDA_VISIBLE_DEVICES of the workers that can still be started.
        self.free_gpu_slots = deque(list_gpu_slots(resources.gpus) if resources.gpus else ())
        self.workers: list[_Worker] = []
        self.retry_queue: deque[tuple[str, str]] = deque()
        self.lost_workers: Counter[str] = Counter()

    def run(self, driver: Driver) -> None:
        """Run packs until the driver has none left. Raises what the driver raises, and OutOfSpace."""
        # In a loop, give packs to idle workers, then handle the messages of busy workers.
        self.driver = driver
        while True:
            # If no worker is busy although packs could be handed out, the driver has none left.
            self.hand_out_packs()
            busy = {worker.connection: worker for worker in self.workers if worker.pack_id is not None}
            if not busy:
                if self.driver.has_ended():
                    return
                raise RuntimeError("no pack is running, but the driver has packs left and returns none")

            # The timeout of the wait lets `tick` run even if no worker sends anything.
            for connection in wait(list(busy), _TICK_SECONDS):
                self.handle_message(busy[connection])  # type: ignore[index]
            self.driver.tick()

    def hand_out_packs(self) -> None:
        """Give packs to idle workers while there are packs."""
        while sum(worker.pack_id is not None for worker in self.workers) < self.cluster.workers:
            pack = self.retry_queue.popleft() if self.retry_queue else self.driver.take_next_pack()
            if pack is None:
                return
            pack_id, work = pack

            # A worker that cannot import the engine fails the pack, because another worker could not either.
            try:
                idle = self.get_idle_worker()
            except ChildImportError as error:
                self.driver.on_hand_out(pack_id)
                self.handle_death(pack_id, work, Death(message=error.message, trace=error.trace, retry="never"))
                continue

            idle.pack_id = pack_id
            idle.work = work
            idle.has_begun = False
            self.driver.on_hand_out(pack_id)
            with suppress(OSError):  # a dead worker is noticed by the next wait
                idle.connection.send_bytes(f"{work}\n{idle.gpu_slot}".encode())

    def get_idle_worker(self) -> _Worker:
        """Return a living worker without a pack; start a new one if there is none."""
        for worker in [worker for worker in self.workers if worker.pack_id is None]:
            if not worker.connection.poll():  # an idle worker sends nothing: readable means closed
                return worker
            self.remove_worker(worker)
        worker = _Worker(self.start_worker())
        if self.free_gpu_slots:
            worker.gpu_slot = self.free_gpu_slots.popleft()
        self.workers.append(worker)
        return worker

    def remove_worker(self, worker: _Worker) -> None:
        """Remove a dead worker; its GPUs are free for another."""
        worker.connection.close()
        self.workers.remove(worker)
        if worker.gpu_slot:
            self.free_gpu_slots.append(worker.gpu_slot)

    def handle_message(self, worker: _Worker) -> None:
        """Handle one message of a worker, or its death. Raises OutOfSpace if the worker reports a full disk."""
        pack_id = worker.pack_id
        assert pack_id is not None

        # A closed connection is a dead worker.
        try:
            message = worker.connection.recv_bytes()
        except (EOFError, OSError):
            self.handle_dead_worker(worker, pack_id)
            return

        # After an evaluation the worker waits for an answer, any byte, which means that it is recorded.
        kind, content = decode_message(message)
        match kind:
            case "completion":
                worker.pack_id = None
                self.driver.on_complete(pack_id)
            case "full_disk":
                raise OutOfSpace(content)
            case "death":
                worker.pack_id = None
                self.handle_death(pack_id, worker.work, Death(**content))
            case _:
                worker.has_begun = True
                deliver_message(self.driver, pack_id, kind, content)
                if kind == "evaluation":
                    with suppress(OSError):
                        worker.connection.send_bytes(b"!")

    def handle_dead_worker(self, worker: _Worker, pack_id: str) -> None:
        """Forget a worker that died, and queue its pack again or report its death."""
        self.remove_worker(worker)
        has_hung = has_timed_out(Path(decode_work(worker.work).folder), pack_id)
        if worker.has_begun or has_hung or self.lost_workers[pack_id] >= _MAX_LOST_WORKERS:
            self.handle_death(pack_id, worker.work, Death(message=WORKER_DIED, retry="always"))
            return

        # A worker that dies before it begins uses up no retry: its host may have been killed. One that hangs does,
        # because the next is likely to hang as long.
        self.lost_workers[pack_id] += 1
        self.driver.on_lost_worker(pack_id, WORKER_DIED)
        time.sleep(_LOST_WORKER_PAUSE)
        self.retry_queue.append((pack_id, worker.work))

    def handle_death(self, pack_id: str, work: str, death: Death) -> None:
        """Report the death of a pack to the driver, and queue the pack if it is retried."""
        if self.retries.report_death(self.driver, pack_id, death):
            self.retry_queue.append((pack_id, work))
