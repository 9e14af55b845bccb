"""Random faults on a Ray of a head and three nodes: the sweep must end as if nothing had happened, bit for bit.

`make test-cluster` runs it. Schedule N of the seed S again, where another seed draws ten other schedules:

    FAULTS_SEED=S pytest -s -m cluster 'tests/cluster/test_random_faults.py::test_a_sweep_ends_as_if_left_alone[N]'
"""

import os
import random
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from orchestrator.record.ledger.records import Record, read_records
from orchestrator.record.state.state import SweepState
from orchestrator.running.with_ray.processes import find_processes, kill_processes
from tests.command_line import CommandLine
from tests.orchestrator.running.deaths import holding, with_words
from tests.orchestrator.running.ledgers import records, wait_for
from tests.orchestrator.tiny_sweeps import LongSweep
from tests.ray_cluster import RayCluster

pytestmark = pytest.mark.cluster

SEED = int(os.environ.get("FAULTS_SEED", "2026"))
FAULTS = ("kill_worker", "kill_node", "kill_raylet", "start_node", "kill_driver", "interrupt_driver")
TRAINS = "ray::ImplicitFunc"  # in the name of a process that trains packs


def draw_schedule(number: int) -> list[tuple[int, str]]:
    """Return two to four faults, each with the number of evaluations in the ledger after which it happens."""
    chance = random.Random(f"{SEED} {number}")
    moments = sorted(chance.sample(range(1, 11), chance.randint(2, 4)))  # of 12: the sweep cannot end before
    return [(moment, chance.choice(FAULTS)) for moment in moments]


def list_unfinished_packs(folder: Path) -> list[str]:
    """Return the ids of the packs that have not ended."""
    packs = SweepState.load(folder).packs.values()
    return [pack.pack_id for pack in packs if pack.status in ("planned", "running")]


class FaultySweep:
    """A sweep on a cluster of three nodes; each of FAULTS is a method."""

    def __init__(
        self, name: str, long_sweep: LongSweep, lengthwise: CommandLine, cluster: RayCluster, *, retries: int
    ) -> None:
        self.folder, self._sweep = long_sweep.storage / name, long_sweep
        self._lengthwise, self._cluster = lengthwise, cluster
        while len(cluster.nodes) > 3:
            cluster.kill(cluster.nodes[0])
        while len(cluster.nodes) < 3:
            self.start_node()
        self.lost: list[tuple[float, str]] = []  # when a node was lost, and the pack that it trained
        self._chance = random.Random(f"{SEED} {name}")
        self.driver = self._start(*long_sweep.words(name, "resources.scheduler=ray", f"resources.retries={retries}"))

    def _start(self, *words: str) -> subprocess.Popen[str]:
        return self._sweep.start(self._lengthwise, *words, RAY_ADDRESS=self._cluster.address)

    def _resume(self) -> None:
        """Resume the sweep at once, and return when the workers of the last driver have ended."""
        workers = self._workers()
        self.driver = self._start("resume", str(self.folder))
        wait_for(lambda: not any(worker.is_running() for worker in workers), self.driver)

    def _workers(self) -> list[psutil.Process]:
        return [worker for node in self._cluster.nodes for worker in with_words(node.pid, TRAINS)]

    def inject(self, moment: int, fault: str) -> None:
        """Wait until the ledger has so many evaluations, and have the fault happen."""
        self._sweep.release_until(moment)
        wait_for(lambda: len(records(self.folder, "evaluation")) >= moment, self.driver)
        getattr(self, fault)()

    def _in_training(self) -> tuple[str, psutil.Process]:
        """Return one of the packs that are being trained, and its process."""

        def find() -> list[tuple[str, psutil.Process]]:
            workers = self._workers()
            holders = ((pack_id, holding(pack_id, workers)) for pack_id in list_unfinished_packs(self.folder))
            return [(pack_id, worker) for pack_id, worker in holders if worker is not None]

        return self._chance.choice(wait_for(find, self.driver))

    def kill_worker(self) -> None:
        """Kill the process of a pack."""
        _, worker = self._in_training()
        worker.kill()

    def kill_node(self) -> None:
        """Kill all processes of a node that trains a pack."""
        for process in self._lose_raylet():
            if process.is_running():
                process.kill()

    def kill_raylet(self) -> None:
        """Kill the raylet of a node that trains a pack: the rest of the node must end by itself."""
        self._lose_raylet()
        wait_for(lambda: not self._cluster.strays())

    def _lose_raylet(self) -> list[psutil.Process]:
        """Kill a raylet, and return the processes that it had started."""
        if len(self._cluster.nodes) == 1:
            self.start_node()
        pack_id, worker = self._in_training()
        (node,) = [node for node in self._cluster.nodes if node.pid == worker.ppid()]
        beneath = node.children(recursive=True)
        self.lost.append((time.time(), pack_id))
        self._cluster.kill(node)
        return beneath

    def start_node(self) -> None:
        """Have another node join."""
        self._cluster.join(cpus=1)

    def kill_driver(self) -> None:
        """Kill the driver and resume the sweep at once."""
        os.kill(self.driver.pid, signal.SIGKILL)
        self.driver.wait()
        self._resume()

    def interrupt_driver(self) -> None:
        """Press Ctrl-C and resume the sweep."""
        os.kill(self.driver.pid, signal.SIGINT)
        out, err = self.driver.communicate()
        assert self.driver.returncode == 130 and f"lengthwise resume {self.folder}" in out, err
        self._resume()

    def recoveries(self) -> list[tuple[float, float]]:
        """Return the seconds from the loss of each node to its notice in the ledger, and to its pack's next record.

        A pack that had ended already has none.
        """
        seconds = []
        for lost, pack_id in self.lost:
            later = [record for record in read_records(self.folder) if record.time > lost]
            noticed = next((n for n, record in enumerate(later) if is_notice(record, pack_id)), len(later))
            again = [record for record in later[noticed + 1 :] if record.fields.get("pack_id") == pack_id]
            if again:
                seconds.append((later[noticed].time - lost, again[0].time - lost))
        return seconds


def is_notice(record: Record, pack_id: str) -> bool:
    """Return whether the record says that the pack has to be resumed."""
    return record.kind == "resume" or (record.kind == "attempt" and record.fields["pack_id"] == pack_id)


@pytest.fixture(scope="module")
def cluster(lengthwise: CommandLine, long_sweep: LongSweep) -> Iterator[RayCluster]:
    """A head without CPUs, where the driver is."""
    with tempfile.TemporaryDirectory(prefix="lw-") as name:  # short, as the paths of sockets must be
        folder = Path(name)
        made = RayCluster(folder, long_sweep.hold, lengthwise.environment, cpus=0)
        try:
            yield made
            made.end()
            wait_for(lambda: not find_processes(folder))
        finally:
            kill_processes(folder)


@pytest.mark.parametrize("number", range(10))
def test_a_sweep_ends_as_if_left_alone(
    number: int, cluster: RayCluster, long_sweep: LongSweep, lengthwise: CommandLine
) -> None:
    schedule = draw_schedule(number)
    print(f"schedule {number} of FAULTS_SEED={SEED}:", ", ".join(f"{fault} after {n}" for n, fault in schedule))
    retries = 1 + sum(fault == "kill_worker" for _, fault in schedule)  # lost nodes do not count
    sweep = FaultySweep(f"schedule-{number}", long_sweep, lengthwise, cluster, retries=retries)
    try:
        for moment, fault in schedule:
            sweep.inject(moment, fault)
    finally:
        long_sweep.release()
        out, err = sweep.driver.communicate()
    assert sweep.driver.returncode == 0, out + err
    long_sweep.ended_as_if_left_alone(sweep.folder)
    packs = SweepState.load(sweep.folder).packs
    ends = [packs[record.fields["pack_id"]] for record in records(sweep.folder, "pack_end")]
    members = Counter(member for pack in ends for member in pack.members)
    assert set(members.values()) == {1} and len(members) == 8
    wait_for(lambda: not cluster.strays() and not any(with_words(node.pid, TRAINS) for node in cluster.nodes))
    for noticed, again in sweep.recoveries():
        print(f"a node was lost: noticed after {noticed:.1f} s, the next record of its pack after {again:.1f} s")
