"""A real Ray cluster that grows while a sweep runs: a node that joins late gets its share of what nobody has begun."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.record.state.state import SweepState

pytestmark = pytest.mark.long

TWO_STRUCTURES = (
    "task.vocabulary=16", "task.train_length=8", "model.width=16", "training.steps=40", "evaluation.every=20",
    "space.training.batch_size={grid: [64, 96]}", "search.configurations=2", "seeds=3",
)  # fmt: skip
SETTINGS = [word for setting in TWO_STRUCTURES for word in ("--set", setting)]
CLUSTER = """
import sys
from ray.cluster_utils import Cluster
node = {"object_store_memory": 80 * 2**20, "temp_dir": sys.argv[1]}
cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, **node})
print(cluster.address, flush=True)
for cpus in sys.stdin:
    cluster.add_node(num_cpus=int(cpus), **node)
    print("joined", flush=True)
cluster.shutdown()
"""


class GrowingCluster:
    """A Ray that begins with one node of one CPU; while the file `hold` exists, packs wait at each evaluation."""

    def __init__(self, folder: str, hold: Path, environment: dict[str, str]) -> None:
        self.hold = hold
        hold.touch()
        self._process = subprocess.Popen(
            [sys.executable, "-c", CLUSTER, folder],
            env={**environment, "HOLD": str(hold)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.address = self._read()

    def join(self, cpus: int) -> None:
        """Let a node join."""
        assert self._process.stdin is not None
        print(cpus, file=self._process.stdin, flush=True)
        assert self._read() == "joined"

    def end(self) -> None:
        self.hold.unlink(missing_ok=True)
        self._process.communicate()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@pytest.fixture
def growing(lengthwise, tmp_path: Path) -> Iterator[GrowingCluster]:
    with tempfile.TemporaryDirectory(prefix="lw-") as folder:  # short, as the paths of sockets must be
        cluster = GrowingCluster(folder, tmp_path / "hold", lengthwise.environment)
        yield cluster
        cluster.end()


def test_a_node_that_joins_late_gets_work(growing, lengthwise, tiny, tmp_path, wait_for, records, curves):
    folder = tmp_path / "grown" / "tiny"
    run = ("run", tiny, *SETTINGS, "--storage")
    driver = lengthwise.start(*run, folder.parent, "--set", "resources.scheduler=ray", RAY_ADDRESS=growing.address)
    wait_for(lambda: records(folder, "evaluation"), driver)
    assert [len(pack.members) for pack in SweepState.load(folder).packs.values()] == [6, 6]
    growing.join(cpus=2)
    wait_for(lambda: len({record.fields["pack_id"] for record in records(folder, "evaluation")}) == 3, driver)
    growing.hold.unlink()
    out, err = driver.communicate()
    assert driver.returncode == 0, err
    state = SweepState.load(folder)
    (recut,) = state.recuts
    assert len(recut.old) == 1 and len(recut.new) >= 2 and recut.workers == 3
    said = f"1 pack that no worker had begun was cut again into {len(recut.new)}, for 3 workers"
    assert said in out and said in lengthwise("status", folder).stdout
    assert lengthwise(*run, tmp_path / "alone").returncode == 0
    assert curves(folder).equals(curves(tmp_path / "alone" / "tiny"))
