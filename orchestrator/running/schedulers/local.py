"""The scheduler of one machine without Ray: worker processes of its own, as many as there is room for.

Workers are forked from a host that has imported the engine (`worker_host`), so that the second costs nothing, and they
run side by side, each with its own connection. A connection that ends is a worker that died.
"""

import json
from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait

import psutil

from orchestrator.errors import OutOfSpace, UserError
from orchestrator.plan.packs import Cluster
from orchestrator.running.hosts.host import Host
from orchestrator.running.pack.protocol import Death, Driver, DriverStopped, guarded

DIED = "the worker process died: it was killed, or memory ran out"
_TICK_SECONDS = 0.1


def refuse_what_is_not_here(cpus: int, gpus: float) -> None:
    """Raise UserError when a pack needs more cores than this machine has, or a GPU."""
    have = psutil.cpu_count() or 1
    if gpus:
        raise UserError("resources.scheduler: local has no GPUs to share out; allowed with gpus: ray, inline")
    if cpus > have:
        raise UserError(f"resources: a pack needs {cpus} CPUs; this machine has {have}")


def this_machine(cpus: int, workers: int | None = None) -> Cluster:
    """So many workers, or one for every `cpus` cores, and an equal share of the memory for each."""
    workers = workers or max(1, (psutil.cpu_count() or 1) // cpus)
    memory = psutil.virtual_memory().total
    return Cluster(
        workers=workers,
        bytes_per_worker=memory / workers,
        description=f"this machine with {psutil.cpu_count()} CPUs",
    )


@dataclass(eq=False)
class _Worker:
    """One worker process by its connection, and the pack it trains."""

    connection: "Connection[bytes, bytes]"
    pack_id: str | None = None
    work: str = ""


def run_packs(driver: Driver, host: Host, *, workers: int, retries: int) -> None:
    """Run packs, `workers` at once, until the driver has none left. Raises what the driver raises, and OutOfSpace."""
    try:
        _Run(driver, host, workers, retries).to_the_end()
    except DriverStopped as stopped:
        raise stopped.args[0] from stopped.args[0].__cause__


class _Run:
    def __init__(self, driver: Driver, host: Host, room: int, retries: int) -> None:
        self.driver, self.host, self.room, self.retries = driver, host, room, retries
        self.workers: list[_Worker] = []
        self.again: deque[tuple[str, str]] = deque()
        self.deaths: Counter[str] = Counter()
        self.limits: dict[str, int] = {}

    def to_the_end(self) -> None:
        while True:
            self.hand_out()
            busy = {worker.connection: worker for worker in self.workers if worker.pack_id is not None}
            if not busy:
                if guarded(self.driver.all_handed_out):
                    return
                raise RuntimeError("no pack is running and none is handed out, though there will be another")
            for connection in wait(list(busy), _TICK_SECONDS):
                self.hear(busy[connection])  # type: ignore[index]
            guarded(self.driver.tick)

    def hand_out(self) -> None:
        """Give a pack to every worker that has none, as long as there are any."""
        while sum(worker.pack_id is not None for worker in self.workers) < self.room:
            pack = self.again.popleft() if self.again else guarded(self.driver.next_pack)
            if pack is None:
                return
            idle = self.idle_worker()
            idle.pack_id, idle.work = pack
            guarded(self.driver.started, idle.pack_id)
            with suppress(OSError):  # a worker that has died is heard of at once
                idle.connection.send_bytes(idle.work.encode())

    def idle_worker(self) -> _Worker:
        """A living worker without a pack; a new one where there is none."""
        for worker in [one for one in self.workers if one.pack_id is None]:
            if not worker.connection.poll():  # it says nothing: what can be read is its end
                return worker
            worker.connection.close()
            self.workers.remove(worker)
        self.workers.append(_Worker(self.host.worker()))
        return self.workers[-1]

    def hear(self, worker: _Worker) -> None:
        """One message of a worker, or its end."""
        pack_id = worker.pack_id
        assert pack_id is not None
        try:
            message = worker.connection.recv_bytes()
        except (EOFError, OSError):
            worker.connection.close()
            self.workers.remove(worker)
            self.died(pack_id, worker.work, Death(said=DIED), self.retries)
            return
        kind, content = message[:1], message[1:]
        if kind == b"E":
            guarded(self.driver.evaluated, pack_id, content)
            with suppress(OSError):
                worker.connection.send_bytes(b"!")
        elif kind == b"B":
            guarded(self.driver.began, pack_id, json.loads(content))
        elif kind == b"P":
            guarded(self.driver.progressed, pack_id, json.loads(content))
        elif kind == b"N":
            guarded(self.driver.noticed, pack_id, content.decode())
        else:
            worker.pack_id = None
            if kind == b"D":
                guarded(self.driver.completed, pack_id)
            elif kind == b"F":
                raise OutOfSpace(content.decode())
            else:  # an exception will most likely come again: once more is enough
                death = Death(**json.loads(content))
                self.died(pack_id, worker.work, death, self.deaths[pack_id] + 1 if death.again else 0)

    def died(self, pack_id: str, work: str, death: Death, most: int) -> None:
        """Try a pack again unless it has died too often: `retries` times, or `most` if that is less."""
        self.deaths[pack_id] += 1
        self.limits[pack_id] = min(self.limits.get(pack_id, self.retries), most)
        if self.deaths[pack_id] > self.limits[pack_id]:
            guarded(self.driver.failed, pack_id, death.said, death.trace)
            return
        guarded(self.driver.retried, pack_id, death.said, death.trace)
        self.again.append((pack_id, work))
