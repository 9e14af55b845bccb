"""cluster/slurm.sh on a real Slurm of three nodes; every sweep must end with the curves of one machine, bit for bit.

`make test-cluster` runs it, as root on a machine with slurmctld, slurmd, slurm-client, munge and iproute2.
"""

import json
import re
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from tests.cluster.virtual_nodes import (
    QUICKSTART,
    SMALL,
    VirtualNodes,
    find_missing,
    options,
    read_curves,
    started,
    wait_for,
)

NODES = Path(__file__).parent / "slurm_nodes.sh"
MISSING = find_missing(("slurmctld", "slurmd", "sbatch", "munged"), "slurmctld slurmd slurm-client munge")
pytestmark = [pytest.mark.cluster, pytest.mark.skipif(MISSING is not None, reason=str(MISSING))]
SETTINGS = ("env", "SLURM_CONF=/srv/slurm.conf", "LENGTHWISE_STORAGE=/srv/shared/sweeps")


@dataclass
class Slurm(VirtualNodes):
    """A running Slurm."""

    def command(self, *words: str, node: int | None = None) -> list[str]:
        return self.enter(*SETTINGS, *words, node=node)

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def submit(self, name: str, *more: str, nodes: int = 3) -> str:
        """Submit the small sweep under a name and return the number of its job."""
        given = (f"--output=/srv/shared/{name}.log", f"--nodes={nodes}", "--cpus-per-task=1", "--time=20", *more)
        python = f"--export=ALL,LENGTHWISE_BIN={Path(sys.executable).parent}"
        sweep = ("cluster/slurm.sh", QUICKSTART, "--name", name, *options(*SMALL))
        return self.call("sbatch", "--parsable", python, *given, *sweep)

    def state(self, job: str) -> str:
        return re.findall(r"JobState=(\w+)", self.call("scontrol", "show", "job", job))[0]

    def wait_for_training(self, name: str, again: int = 0) -> None:
        """Return when packs train, after the sweep was resumed `again` times."""
        log = self.log(name)

        def trains() -> bool:
            parts = log.read_text().split("Ray at ") if log.exists() else []
            return len(parts) == again + 2 and "training" in parts[-1]

        wait_for(f"{name} trains", trains, log)

    def wait_for_end(self, job: str, name: str) -> None:
        over = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL")
        wait_for(f"{name} ends", lambda: self.state(job) in over, self.log(name))
        assert self.state(job) == "COMPLETED", self.log(name).read_text()

    def left(self, node: int) -> list[str]:
        """Return processes on a node that are not Slurm's own, and files in its temp folder that are not."""
        processes = self.call("ps", "-e", "-o", "comm=", node=node).split()
        files = self.call("ls", "/tmp", "/dev/shm", node=node).split()
        slurms = {"bash", "slurmd", "ps", "/tmp:", "slurmd.pid", "/dev/shm:"}
        harmless = ("torchinductor", "lengthwise-tests-")  # compiled code, and where tests remember sweeps
        return [name for name in processes + files if name not in slurms and not name.startswith(harmless)]

    def wait_until_clean(self, nodes: tuple[int, ...] = (1, 2, 3)) -> None:
        wait_for("clean nodes", lambda: not any(self.left(node) for node in nodes), self.folder / "log" / "control.log")


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    folder = tmp_path_factory.mktemp("slurm")
    with started(NODES, folder) as process:
        cluster = Slurm(NODES, folder, process)
        wait_for("slurmctld", lambda: (folder / "log" / "control.log").exists(), folder / "up.log")
        wait_for("three idle nodes", lambda: "idle 3" in cluster.call("sinfo", "--format=%t %D"), folder / "up.log")
        yield cluster


@pytest.fixture
def same_curves(slurm: Slurm, alone: pd.DataFrame) -> Callable[[str], None]:
    def check(name: str) -> None:
        pd.testing.assert_frame_equal(read_curves(slurm.folder / "sweeps" / name), alone, check_exact=True)

    return check


def resumes(slurm: Slurm, name: str) -> int:
    ledger = (slurm.folder / "sweeps" / name / "events.jsonl").read_text().splitlines()
    return sum(json.loads(line)["kind"] == "resume" for line in ledger)


def test_two_jobs_on_the_same_nodes_each_with_a_private_token(slurm: Slurm, same_curves: Callable[[str], None]) -> None:
    first = slurm.submit("first", "--gpus-per-node=1")
    second = slurm.submit("second", nodes=2)
    for name in ("first", "second"):
        slurm.wait_for_training(name)
    assert "with 3 CPUs and 3 GPUs" in slurm.log("first").read_text()
    assert "with 2 CPUs and 0 GPUs" in slurm.log("second").read_text()
    tokens = set()
    for node in (1, 2, 3):
        file = f"/tmp/lw-{first}-0/auth_token"
        assert slurm.call("stat", "--format=%a", file, node=node) == "600"
        tokens.add(slurm.call("cat", file, node=node))
        assert stat.filemode(0o40700) == slurm.call("stat", "--format=%A", f"/tmp/lw-{first}-0", node=node)
    (token,) = tokens
    assert re.fullmatch("[0-9a-f]{64}", token)
    everything = slurm.call("ps", "-e", "-ww", "-o", "args") + slurm.call("scontrol", "show", "job", first)
    assert "raylet" in everything and token not in everything
    assert token != slurm.call("cat", f"/tmp/lw-{second}-0/auth_token", node=1)
    for job, name in ((first, "first"), (second, "second")):
        slurm.wait_for_end(job, name)
        same_curves(name)
        assert token not in slurm.log(name).read_text() and resumes(slurm, name) == 0
    slurm.wait_until_clean()


def test_out_of_time_it_is_requeued_and_resumes(slurm: Slurm, same_curves: Callable[[str], None]) -> None:
    job = slurm.submit("walltime")
    slurm.wait_for_training("walltime")
    slurm.call("scontrol", "update", f"JobId={job}", "TimeLimit=2")
    wait_for("requeued", lambda: slurm.state(job) == "PENDING", slurm.log("walltime"))
    slurm.wait_until_clean()
    slurm.call("scontrol", "update", f"JobId={job}", "TimeLimit=20")
    slurm.wait_for_end(job, "walltime")
    assert "requeued" in slurm.log("walltime").read_text() and resumes(slurm, "walltime") == 1
    same_curves("walltime")


def test_preempted_it_is_requeued_and_resumes(slurm: Slurm, same_curves: Callable[[str], None]) -> None:
    job = slurm.submit("preempted")
    slurm.wait_for_training("preempted")
    slurm.call("sbatch", "--partition=high", "--nodes=3", "--exclusive", "--output=/dev/null", "--wrap=sleep 1")
    wait_for("requeued", lambda: slurm.state(job) == "PENDING", slurm.log("preempted"))
    slurm.wait_for_end(job, "preempted")
    assert "interrupted" in slurm.log("preempted").read_text() and resumes(slurm, "preempted") == 1
    same_curves("preempted")


def test_cancelled_it_leaves_nothing_and_the_same_command_resumes(
    slurm: Slurm, same_curves: Callable[[str], None]
) -> None:
    job = slurm.submit("cancelled")
    slurm.wait_for_training("cancelled")
    slurm.call("scancel", job)
    slurm.wait_until_clean()
    wait_for("cancelled", lambda: slurm.state(job) == "CANCELLED", slurm.log("cancelled"))
    assert "requeued" not in slurm.log("cancelled").read_text()
    slurm.wait_for_end(slurm.submit("cancelled"), "cancelled")
    assert resumes(slurm, "cancelled") == 1
    same_curves("cancelled")


@pytest.mark.parametrize("node", [1, 2], ids=["first", "other"])
def test_a_node_dies_and_slurm_requeues(slurm: Slurm, same_curves: Callable[[str], None], node: int) -> None:
    name = f"without-{node}"
    job = slurm.submit(name, nodes=2)
    slurm.wait_for_training(name)
    slurm.unplug(node)
    slurm.wait_for_end(job, name)
    slurm.plug(node)
    assert resumes(slurm, name) == 1
    same_curves(name)
    slurm.wait_until_clean()
    wait_for("three idle nodes", lambda: "idle 3" in slurm.call("sinfo", "--format=%t %D"), slurm.log(name))
