"""A real Ray cluster for tests, of several nodes on this machine."""

import subprocess
import sys
from pathlib import Path

import psutil

from orchestrator.running.with_ray.processes import MARK, find_processes

PROGRAM = """
import os, sys
from ray.cluster_utils import Cluster
node = {"object_store_memory": 80 * 2**20, "temp_dir": sys.argv[1]}
quiet = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}  # nobody reads logs or scales
head = {"num_cpus": int(sys.argv[2]), "num_gpus": len(sys.argv[3:]), **quiet, **node}
cluster = Cluster(initialize_head=True, head_node_args=head)
print(cluster.address, flush=True)
raylets = {}
for line in sys.stdin:
    word, number, *more = line.split()
    if word == "join":
        gpus = [each for each in more if "=" not in each]
        variables = dict(each.split("=", 1) for each in more if "=" in each) | {"CUDA_VISIBLE_DEVICES": ",".join(gpus)}
        os.environ.update(variables)
        size = {"num_cpus": int(number), "num_gpus": len(gpus)}
        raylet = cluster.add_node(**size, **node).all_processes["raylet"][0].process
        raylets[raylet.pid] = raylet
        for name in variables:
            del os.environ[name]
    else:
        raylet = raylets.pop(int(number))
        raylet.kill() if word == "kill" else raylet.terminate()
        raylet.wait()  # its workers take a zombie for a living raylet
    print(raylet.pid, flush=True)
cluster.shutdown()
"""


class RayCluster:
    """A Ray that begins with its head, with GPUs of these names; while `hold` exists, packs wait at each evaluation.

    Its processes are marked with `folder`, a short path, as those of a local Ray are.
    """

    def __init__(self, folder: Path, hold: Path, environment: dict[str, str], *gpus: str, cpus: int) -> None:
        hold.touch()
        self.hold = hold
        (folder / "ray").mkdir()  # for the file with the address, which others would find and delete in /tmp/ray
        self.nodes, self._folder = list[psutil.Process](), folder  # the raylets of those that have joined
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(folder), str(cpus), *gpus],
            env=environment
            | {"HOLD": str(hold), MARK: str(folder), "RAY_TMPDIR": str(folder), "CUDA_VISIBLE_DEVICES": ",".join(gpus)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.address = self._read()

    def join(self, cpus: int, *gpus: str, **environment: object) -> None:
        """Let a node join, which believes that it has GPUs of these names; its workers have these variables."""
        variables = [f"{name}={value}" for name, value in environment.items()]  # without spaces
        self.nodes.append(psutil.Process(self._ask("join", cpus, *gpus, *variables)))

    def kill(self, raylet: psutil.Process) -> None:
        """Kill a raylet that has joined; what it has started ends by itself, a little later."""
        self._ask("kill", raylet.pid)
        self.nodes.remove(raylet)

    def terminate(self, raylet: psutil.Process) -> None:
        """Let a node leave: its raylet unregisters before it ends."""
        self._ask("terminate", raylet.pid)
        self.nodes.remove(raylet)

    def strays(self) -> list[psutil.Process]:
        """Return its processes that have outlived the one that started them."""
        beneath = psutil.Process(self._process.pid).children(recursive=True)
        return [
            process
            for process in find_processes(self._folder)
            if process not in beneath and process.pid != self._process.pid
        ]

    def end(self) -> None:
        """End every node."""
        self._process.communicate()

    def _ask(self, word: str, number: int, *more: str) -> int:
        assert self._process.stdin is not None
        print(word, number, *more, file=self._process.stdin, flush=True)
        return int(self._read())

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()
