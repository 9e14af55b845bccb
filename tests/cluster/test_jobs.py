"""Jobs that `ray job submit` starts on a real head with a token: run, refused, stopped and resumed."""

import json
import os
import re
import shlex
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest
import requests

from orchestrator.code.repository import RepositoryReader
from tests.cluster.virtual_nodes import options, read_curves
from tests.command_line import NO_SPARE_WORKERS
from tests.ports import free_ports

ROOT = Path(__file__).parents[2]
PATIENCE = 300.0  # seconds
TASK = '''"""A task of my own."""

from trainers import register
from trainers.tasks.set_complement import SetComplement


@register("task", "mine")
class Mine(SetComplement):
    """Set complement."""
'''
SWEEP = """\
name: my study
study: tests
imports: [my_tasks]
task: {name: mine, vocabulary: 6, train_length: 3, target: soft}
model: {name: attention_only, width: 8, value_width: 4}
training: {steps: 40, batch_size: 4, learning_rate: 0.01, averages: {raw: {}}, compile: false}
seeds: 2
evaluation: {samples: 20, every: 10}
objective: {metric: total_variation, average: raw, lengths: [4], direction: minimize}
resources: {pack: 1, checkpoint_seconds: 1}
tracking: {enabled: false}
"""


@dataclass(frozen=True)
class Head:
    """A head that wants a token; `environment` is that of somebody who has it.

    While the file `hold` exists, every pack waits after each of its evaluations; packs that need the GPU train on the
    CPU and are listed in the file `gpus` (tests/startup). `cluster` is where drivers connect, `printed` what the script
    has printed.
    """

    printed: str
    address: str
    cluster: str
    environment: dict[str, str]
    storage: Path
    token: Path
    hold: Path
    gpus: Path


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    """A head that believes that it has a GPU: an nvidia-smi of its own gives it 40 GiB, and 80 to all others here."""
    home = tmp_path_factory.mktemp("home of somebody")
    (home / "nvidia-smi").write_text(
        "#!/bin/sh\ncase $* in *--id=GPU-5a) echo 40960, Disabled;; *) echo 81920, Disabled;; esac\n"
    )
    (home / "nvidia-smi").chmod(0o755)
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "LENGTHWISE_"))}
    storage, hold, gpus = home / "sweeps", home / "hold", home / "gpus"
    bin, path = str(Path(sys.executable).parent), os.pathsep.join([str(ROOT / "tests" / "startup"), str(ROOT)])
    environment = outside | {"HOME": str(home), "PYTHONPATH": path, "LENGTHWISE_BIN": bin, "HOLD": str(hold)}
    environment |= {"PATH": f"{home}:{outside['PATH']}", "PRETENDED_GPUS": str(gpus), "ROOM": "1"}
    environment |= NO_SPARE_WORKERS
    (port,) = free_ports(1)
    of_ray = ["--", "--num-cpus=2", "--num-gpus=1", "--object-store-memory=100000000"]
    started = subprocess.run(
        [ROOT / "cluster" / "local_head.sh", "--detach", "--gcs-port", str(port), *of_ray],
        env=environment | {"LENGTHWISE_STORAGE": str(storage), "CUDA_VISIBLE_DEVICES": "GPU-5a"},
        capture_output=True,
        text=True,
    )
    assert started.returncode == 0 and "in the foreground" not in started.stdout, started.stderr
    process = psutil.Process(int(re.findall(r"only this one: kill (\d+)$", started.stdout, re.M)[0]))
    token = home / ".ray" / "auth_token"
    try:
        address = re.findall(r"http://127\.0\.0\.1:\d+", started.stdout)[0]
        environment["RAY_AUTH_MODE"] = "token"
        yield Head(started.stdout, address, f"127.0.0.1:{port}", environment, storage, token, hold, gpus)
        members = process.children(recursive=True)
        assert any("raylet" in process.name() for process in members)
        # That of a process that is just ending is empty.
        environments = [process.environ() for process in members if "ray" in process.name()]
        (files,) = {Path(environment["TMPDIR"]) for environment in environments if environment}
        assert files.match("/tmp/lw-head.*") and files.is_dir()
    finally:
        members = process.children(recursive=True)
        process.terminate()
        psutil.wait_procs([process, *members], timeout=60)
        Path(re.findall(r"Its messages: (\S+)", started.stdout)[0]).unlink()
    assert not [process for process in members if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
    assert not files.exists() and token.exists()
    with pytest.raises(requests.ConnectionError):
        requests.get(f"{address}/api/jobs/", timeout=5)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "study"
    folder.mkdir()
    (folder / "my_tasks.py").write_text(TASK)
    (folder / "mine.yaml").write_text(SWEEP)
    return folder


def records(folder: Path, kind: str) -> list[dict[str, Any]]:
    ledger = folder / "events.jsonl"
    lines = ledger.read_text().splitlines() if ledger.exists() else []
    return [record for record in map(json.loads, lines) if record["kind"] == kind]


def wait_for(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def authorize(head: Head) -> dict[str, str]:
    """Return the headers of a request by somebody who has the token of the head."""
    return {"Authorization": f"Bearer {head.token.read_text()}"}


def ask(head: Head, method: str, path: str = "", **content: Any) -> requests.Response:
    """Ask the job interface of the head, as Ray's own command does, which takes two seconds to import Ray."""
    address = f"{head.address}/api/jobs/{path}"
    return requests.request(method, address, json=content or None, headers=authorize(head), timeout=30)


def read_log(head: Head, job: str) -> str:
    return str(ask(head, "GET", f"{job}/logs").json()["logs"])


@pytest.mark.slow
def test_a_head_answers_only_with_the_token(head: Head) -> None:
    assert stat.S_IMODE(head.token.stat().st_mode) == 0o600
    assert re.fullmatch(r"[0-9a-f]{64}", head.token.read_text()) and head.token.read_text() not in head.printed
    assert requests.get(f"{head.address}/api/jobs/", timeout=10).status_code == 401
    wrong = requests.get(f"{head.address}/api/jobs/", headers={"Authorization": "Bearer wrong"}, timeout=10)
    assert wrong.status_code in (401, 403)


ASKING = """
from orchestrator.errors import UserError
from orchestrator.running.with_ray import ray_session

with ray_session.connect_to_ray(1, 0.25) as cluster:
    print(cluster.workers, cluster.bytes_per_worker / 2**30)
ray_session.QUERY_TIMEOUT_SECONDS = 0
with ray_session.connect_to_ray(1, 0.25) as cluster:
    print(cluster.workers, cluster.bytes_per_worker / 2**30, cluster.description)
try:
    with ray_session.connect_to_ray(1, 2):
        print("no node has two GPUs")
except UserError as error:
    print(error)
"""


@pytest.mark.slow
def test_the_machines_of_the_cluster_say_how_much_memory_their_gpus_have(head: Head) -> None:
    """If none answers in time, little is assumed, and said; a pack for more GPUs than any of them has is refused."""
    environment = {**head.environment, "RAY_ADDRESS": head.cluster, "CUDA_VISIBLE_DEVICES": ""}  # the driver's own
    command = [sys.executable, "-c", ASKING]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answered, silent, refused = done.stdout.strip().splitlines()[-3:]
    assert answered == "2 10.0" and silent.startswith("2 4.0 Ray at ")
    assert silent.endswith("; no GPU reports its memory, so 16 GiB are assumed")  # of which a quarter
    assert refused.startswith("resources: a pack needs 1 CPU and 2 GPUs on one node; the largest node of Ray at ")


@pytest.mark.slow
def test_a_stopped_job_is_resumed_and_ends_with_the_same_curves(
    head: Head, study: Path, run_inline: Callable[..., Path], own_code_forgotten: None
) -> None:
    """Its pack of two members runs out of memory on half a GPU; then two packs of one share the GPU.

    The job is stopped while these wait after an evaluation; a second job of the same name is refused.
    """
    file, folder = study / "mine.yaml", head.storage / "in a job"  # not in the copy, which is deleted
    (line,) = [line for line in head.printed.splitlines() if " job submit " in line]
    printed, _, sweep = line.partition(" --working-dir . -- ")
    assert sweep == "python -m orchestrator run search_spaces/quickstart.yaml"
    entrypoint = [sys.executable, "-m", "orchestrator", "run", str(file), "--name", "in a job"]
    entrypoint += options("resources.gpus=0.5", "resources.pack=2")

    head.hold.touch()
    command = f"{printed} --no-wait --working-dir . -- {shlex.join(entrypoint)}"
    started = subprocess.run(command, shell=True, cwd=ROOT, env=head.environment, capture_output=True, text=True)
    assert "--submission-id quickstart " in printed and started.returncode == 0, started.stdout + started.stderr
    wait_for(lambda: len(records(folder, "evaluation")) == 2)
    twice = ask(head, "POST", entrypoint="true", submission_id="quickstart")  # as the same command would once more
    assert not twice.ok and "quickstart" in twice.text, twice.text
    assert [line.split()[1] for line in head.gpus.read_text().splitlines()] == ["GPU-5a"] * 3
    assert not records(folder, "attempt")

    stopped = ask(head, "POST", "quickstart/stop")
    assert stopped.ok, stopped.text
    wait_for(lambda: ask(head, "GET", "quickstart").json()["status"] == "STOPPED")
    log = read_log(head, "quickstart")
    assert [record["data"]["status"] for record in records(folder, "end")] == ["interrupted"], log
    assert "Ray at " in log and "with 2 CPUs and 1 GPU: up to 2 packs at once" in log
    head.hold.unlink()

    # Another job with the same working tree; one worker, which trains both packs, is enough.
    tree = ask(head, "GET", "quickstart").json()["runtime_env"]
    resume = [sys.executable, "-m", "orchestrator", "resume", str(folder), *options("resources.workers=1")]
    submitted = ask(head, "POST", entrypoint=shlex.join(resume), submission_id="resumed", runtime_env=tree)
    assert submitted.ok, submitted.text
    wait_for(lambda: ask(head, "GET", "resumed").json()["status"] not in ("PENDING", "RUNNING"))
    log = read_log(head, "resumed")
    assert ask(head, "GET", "resumed").json()["status"] == "SUCCEEDED" and len(records(folder, "resume")) == 1, log
    assert "Finished: 1 configuration " in log
    assert [record["data"]["status"] for record in records(folder, "end")] == ["interrupted", "complete"]
    assert (folder / "report.html").is_file()
    pd.testing.assert_frame_equal(read_curves(folder), read_curves(run_inline(file)), check_exact=True)
    with RepositoryReader([ROOT]) as reader:
        (here,) = reader.read()
    code = records(folder, "sweep")[0]["data"]["code"]
    commits = [
        (folder["commit"], folder["source"])
        for folder in code["folders"]
        if folder["source"] == "job" or not here.commit
    ]
    assert commits == [(here.commit, "job" if here.commit else None)], code
