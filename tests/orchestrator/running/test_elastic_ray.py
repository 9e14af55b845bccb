"""A real Ray cluster that grows while a sweep runs: a node that joins late gets its share of what nobody has begun."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestrator.record.state.repackings import describe_repacking
from orchestrator.record.state.state import SweepState
from tests.orchestrator.running.deaths import finish
from tests.orchestrator.running.ledgers import curves, records, sets, wait_for
from tests.ray_cluster import RayCluster

pytestmark = pytest.mark.slow


TWO_STRUCTURES = (
    "task.vocabulary=16", "task.train_length=8", "model.width=16", "training.steps=40", "evaluation.every=20",
    "space.training.batch_size={grid: [64, 96]}", "search.configurations=2", "seeds=3",
)  # fmt: skip
SETTINGS = sets(*TWO_STRUCTURES)


@pytest.fixture
def hold(tmp_path: Path) -> Path:
    return tmp_path / "hold"


@pytest.fixture
def growing(lengthwise, hold: Path, tmp_path: Path) -> Iterator[RayCluster]:
    """A head with a GPU; nodes believe what an nvidia-smi of the tests says: GPU-48 has 48 MiB, and others 80 GiB."""
    command = tmp_path / "bin" / "nvidia-smi"
    command.parent.mkdir()
    command.write_text("#!/bin/sh\ncase $* in *--id=GPU-48) echo 48, Disabled;; *) echo 81920, Disabled;; esac\n")
    command.chmod(0o755)
    path = f"{command.parent}:{lengthwise.environment['PATH']}"
    environment = lengthwise.environment | {"PATH": path, "PRETENDED_GPUS": str(tmp_path / "gpus")}
    with tempfile.TemporaryDirectory(prefix="lw-") as folder:  # short, as the paths of sockets must be
        cluster = RayCluster(Path(folder), hold, environment, "GPU-80", cpus=1)
        yield cluster
        hold.unlink(missing_ok=True)
        cluster.end()


def test_a_node_with_a_small_gpu_that_joins_late_gets_small_packs(growing, hold, lengthwise, tiny, tmp_path):
    """It has room for 3 members, as half of its memory is for packs and no member takes less than 8 MiB."""
    folder = tmp_path / "grown" / "tiny"
    run = ("run", tiny, *SETTINGS, "--storage")
    on_gpus = ("--set", "resources.scheduler=ray", "--set", "resources.gpus=1")
    driver = lengthwise.start(*run, folder.parent, *on_gpus, RAY_ADDRESS=growing.address)
    wait_for(lambda: records(folder, "evaluation"), driver)
    assert [len(pack.members) for pack in SweepState.load(folder).packs.values()] == [6, 6]
    growing.join(1, "GPU-48")
    wait_for(lambda: len({record.fields["pack_id"] for record in records(folder, "evaluation")}) == 2, driver)
    hold.unlink()
    out = finish(driver)
    state = SweepState.load(folder)
    assert sorted(len(pack.members) for pack in state.packs.values()) == [3, 3, 6]
    (repacking,) = state.repackings
    assert (len(repacking.old_ids), len(repacking.new_ids), repacking.workers) == (1, 2, 2) and describe_repacking(
        repacking
    ) in out
    pack_ids, gpus, _ = zip(*(line.split() for line in (tmp_path / "gpus").read_text().splitlines()), strict=True)
    assert set(gpus) == {"GPU-80", "GPU-48"} and len(set(pack_ids)) == len(pack_ids) == 3
    assert lengthwise(*run, tmp_path / "alone").returncode == 0
    assert curves(folder).equals(curves(tmp_path / "alone" / "tiny"))
