"""Nodes of a Ray cluster: one joins late, programs share the GPUs of one, another takes over when a node is lost."""

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from orchestrator.record.state.repackings import describe_repacking
from orchestrator.record.state.state import SweepState
from tests.command_line import CommandLine
from tests.orchestrator.program.studies import Study, script
from tests.orchestrator.program.test_gpus import SCRIPT, log, most_at_once
from tests.orchestrator.program.test_stops import assert_equal_curves
from tests.orchestrator.running.deaths import finish
from tests.orchestrator.running.ledgers import curves, records, sets, wait_for
from tests.ray_cluster import RayCluster

pytestmark = pytest.mark.slow

TWO_STRUCTURES = (
    "task.vocabulary=16", "task.train_length=8", "model.width=16", "training.steps=40", "evaluation.every=20",
    "space.training.batch_size={grid: [64, 96]}", "search.configurations=2", "seeds=3",
)  # fmt: skip
# In the first attempt it waits after step 10. When it is asked to end, its worker is gone: nobody reads step 20.
WAIT = """
    if step == 11 and run.reported == 0:
        waiting = [True]
        signal.signal(signal.SIGTERM, lambda *_: waiting.clear())
        while waiting:
            time.sleep(0.05)
    if step == 21 and run.reported == 0:
        break
"""


@pytest.fixture(scope="module")
def cluster(lengthwise: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    """A head that takes no packs; nodes believe an nvidia-smi of the tests: GPU-48 has 48 MiB, and others 80 GiB."""
    commands, hold = tmp_path_factory.mktemp("bin"), tmp_path_factory.mktemp("held") / "hold"
    (commands / "nvidia-smi").write_text(
        "#!/bin/sh\ncase $* in *--id=GPU-48) memory=48;; *) memory=81920;; esac\n"
        'echo "$memory, Disabled"; case $* in *--id=GPU-*);; *) echo "$memory, Disabled";; esac\n'
    )
    (commands / "nvidia-smi").chmod(0o755)
    lengthwise.environment["PATH"] = f"{commands}:{lengthwise.environment['PATH']}"
    with tempfile.TemporaryDirectory(prefix="lw-") as folder:  # short, as the paths of sockets must be
        cluster = RayCluster(Path(folder), hold, lengthwise.environment, cpus=0)
        hold.unlink()
        yield cluster
        cluster.end()


@pytest.fixture(scope="module")
def two_gpus(cluster: RayCluster) -> None:
    """A node with two GPUs."""
    cluster.join(4, "0", "1")


@pytest.fixture
def study(tmp_path: Path, no_reports: None) -> Study:
    """A study in a folder of the test, whose sweeps write no report."""
    return Study(tmp_path / "study")


def test_a_node_with_a_small_gpu_that_joins_late_gets_small_packs(
    cluster: RayCluster, lengthwise: CommandLine, tiny: Path, tmp_path: Path
) -> None:
    """It has room for 3 members, as half of its memory is for packs and no member takes less than 8 MiB."""
    folder, gpus = tmp_path / "grown" / "tiny", tmp_path / "gpus"
    run = ("run", tiny, *sets(*TWO_STRUCTURES), "--storage")
    on_gpus = ("--set", "resources.scheduler=ray", "--set", "resources.gpus=1")
    cluster.hold.touch()
    try:
        cluster.join(1, "GPU-80", PRETENDED_GPUS=gpus)
        driver = lengthwise.start(*run, folder.parent, *on_gpus, RAY_ADDRESS=cluster.address)
        wait_for(lambda: records(folder, "evaluation"), driver)
        assert [len(pack.members) for pack in SweepState.load(folder).packs.values()] == [6, 6]
        cluster.join(1, "GPU-48", PRETENDED_GPUS=gpus)
        wait_for(lambda: len({record.fields["pack_id"] for record in records(folder, "evaluation")}) == 2, driver)
    finally:
        cluster.hold.unlink()
    out = finish(driver)
    for node in [*cluster.nodes]:
        cluster.terminate(node)
    state = SweepState.load(folder)
    assert sorted(len(pack.members) for pack in state.packs.values()) == [3, 3, 6]
    (repacking,) = state.repackings
    assert (len(repacking.old_ids), len(repacking.new_ids), repacking.workers) == (1, 2, 2)
    assert describe_repacking(repacking) in out
    pack_ids, names, _ = zip(*(line.split() for line in gpus.read_text().splitlines()), strict=True)
    assert set(names) == {"GPU-80", "GPU-48"} and len(set(pack_ids)) == len(pack_ids) == 3
    lengthwise.succeeds(*run, tmp_path / "alone")
    assert curves(folder).equals(curves(tmp_path / "alone" / "tiny"))


@pytest.mark.usefixtures("two_gpus")
def test_members_share_gpus(cluster: RayCluster, lengthwise: CommandLine, study: Study, tmp_path: Path) -> None:
    """Three members have half a GPU each at the same time."""
    code, resources = SCRIPT.format(folder=tmp_path, together=3, then="true"), {"scheduler": "ray", "gpus": 0.5}
    program = {"command": ["bash", "train.sh"]}
    file = study.write(code, name="train.sh", program=program, evaluation__every=None, seeds=3, resources=resources)
    finish(lengthwise.start("run", file, "--storage", tmp_path / "runs", RAY_ADDRESS=cluster.address))
    assert sorted(most_at_once(log(tmp_path)).items()) in ([("0", 1), ("1", 2)], [("0", 2), ("1", 1)])
    assert {words[2] for words in log(tmp_path) if words[0] == "begin"} == {"0.45"}


def raylet_of_program(cluster: RayCluster) -> psutil.Process | None:
    """Return the raylet below which the program runs, None before it does."""
    for raylet in cluster.nodes:
        for process in raylet.children(recursive=True):
            with suppress(psutil.Error):  # it has just ended
                if any(word.endswith("/train.py") for word in process.cmdline()[1:4]):
                    return raylet
    return None


@pytest.mark.usefixtures("two_gpus")
def test_program_of_a_lost_node(cluster: RayCluster, lengthwise: CommandLine, study: Study, tmp_path: Path) -> None:
    """The member is tried again on the other node, and has the curves of one that was left alone."""
    file = study.write(script(step=WAIT), resources={"scheduler": "ray", "retries": 1, "grace_seconds": 20})
    driver = lengthwise.start("run", file, "--storage", tmp_path / "runs", RAY_ADDRESS=cluster.address)
    folder = tmp_path / "runs" / "prog"
    cluster.join(cpus=1)
    wait_for(lambda: records(folder, "evaluation"), driver)
    lost = wait_for(lambda: raylet_of_program(cluster), driver)
    cluster.kill(lost)
    finish(driver)
    state = SweepState.load(folder)
    (pack,) = state.packs.values()
    assert (pack.status, len(pack.attempts), list(pack.evaluations)) == ("complete", 1, [10, 20, 30])
    first, second = (study.member(state) / f"attempt-{number}.log" for number in (1, 2))
    assert (first.read_text(), second.read_text()) == ("begins at 0\n", "begins at 20\n")
    study.write(script())
    assert_equal_curves(state, study.run(name="alone"))
