"""Programs on nodes of a Ray cluster: they share the GPUs of one; another takes over when a node is lost."""

import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from orchestrator.record.state.state import SweepState
from tests.command_line import CommandLine
from tests.orchestrator.program.studies import Study, script
from tests.orchestrator.program.test_gpus import SCRIPT, log, most_at_once
from tests.orchestrator.program.test_stops import assert_equal_curves
from tests.orchestrator.running.deaths import finish
from tests.orchestrator.running.ledgers import records, wait_for
from tests.ray_cluster import RayCluster

pytestmark = pytest.mark.slow

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
    """A head that takes no packs, and a node that believes in two GPUs, of which an nvidia-smi of the tests tells."""
    commands, hold = tmp_path_factory.mktemp("bin"), tmp_path_factory.mktemp("held") / "hold"
    (commands / "nvidia-smi").write_text("#!/bin/sh\necho 81920, Disabled\necho 81920, Disabled\n")
    (commands / "nvidia-smi").chmod(0o755)
    lengthwise.environment["PATH"] = f"{commands}:{lengthwise.environment['PATH']}"
    with tempfile.TemporaryDirectory(prefix="lw-") as folder:  # short, as the paths of sockets must be
        cluster = RayCluster(Path(folder), hold, lengthwise.environment, cpus=0)
        hold.unlink()
        cluster.join(4, "0", "1")
        yield cluster
        cluster.end()


def test_members_share_gpus(cluster: RayCluster, lengthwise: CommandLine, study: Study, tmp_path: Path) -> None:
    """Four members have half a GPU each."""
    code, resources = SCRIPT.format(folder=tmp_path, together=4, then="true"), {"scheduler": "ray", "gpus": 0.5}
    program = {"command": ["bash", "train.sh"]}
    file = study.write(code, name="train.sh", program=program, evaluation__every=None, seeds=4, resources=resources)
    finish(lengthwise.start("run", file, "--storage", tmp_path / "runs", RAY_ADDRESS=cluster.address))
    assert most_at_once(log(tmp_path)) == {"0": 2, "1": 2}
    assert {words[2] for words in log(tmp_path) if words[0] == "begin"} == {"0.45"}


def raylet_of_program(cluster: RayCluster) -> psutil.Process | None:
    """Return the raylet below which the program runs, None before it does."""
    for raylet in cluster.nodes:
        for process in raylet.children(recursive=True):
            with suppress(psutil.Error):  # it has just ended
                if any(word.endswith("/train.py") for word in process.cmdline()[1:4]):
                    return raylet
    return None


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
