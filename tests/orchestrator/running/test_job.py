"""A real `ray job submit` to a real head with token authentication, and what it refuses without the token."""

import json
import os
import secrets
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from orchestrator.code.repository import RepositoryReader, job_environment
from tests.ports import free_ports

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).resolve().parents[3]
RAY = Path(sys.executable).with_name("ray")
SMALL = ("--set", "training.steps=40", "--set", "search.configurations=1", "--set", "resources.scheduler=ray")


@dataclass(frozen=True)
class Head:
    address: str
    cluster: str
    environment: dict[str, str]
    home: Path


@pytest.fixture(scope="module")
def head(lengthwise, tmp_path_factory: pytest.TempPathFactory, wait_for) -> Iterator[Head]:
    """A head in its own process group and home folder; `ray stop` would end every Ray of this user.

    It believes that it has a GPU, of which an nvidia-smi of its own says that it has 40 GiB; others here have 80.
    """
    home = tmp_path_factory.mktemp("head")
    (home / "nvidia-smi").write_text(
        "#!/bin/sh\ncase $* in *--id=GPU-5a) echo 40960, Disabled;; *) echo 81920, Disabled;; esac\n"
    )
    (home / "nvidia-smi").chmod(0o755)
    token = home / "token"
    token.write_text(secrets.token_hex(32))
    token.chmod(0o600)
    environment = lengthwise.environment | {
        "HOME": str(home),
        "PATH": f"{home}:{lengthwise.environment['PATH']}",
        "CUDA_VISIBLE_DEVICES": "GPU-5a",
        "PRETENDED_GPUS": str(home / "gpus"),
        "ROOM": "1",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_USAGE_STATS_ENABLED": "0",
        "TMPDIR": str(home),  # what a killed head leaves in the temp directory
        "RAY_TMPDIR": "/tmp",  # the paths of its sockets must be short
    }
    port, dashboard, agent_http, agent_grpc, client = free_ports(5)
    command = [str(RAY), "start", "--head", "--block", "--num-cpus=2", "--num-gpus=1", "--node-ip-address=127.0.0.1"]
    command += [f"--port={port}", "--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}"]
    command += [f"--dashboard-agent-listen-port={agent_http}", f"--dashboard-agent-grpc-port={agent_grpc}"]
    command += [f"--ray-client-server-port={client}", "--object-store-memory=200000000", "--disable-usage-stats"]
    log = (home / "head.log").open("w")
    process = subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
    )
    address = f"http://127.0.0.1:{dashboard}"
    try:
        wait_for(lambda: process.poll() is not None or status_of(f"{address}/api/version", token) == 200)
        assert process.poll() is None, (home / "head.log").read_text()
        yield Head(address, f"127.0.0.1:{port}", environment | {"RAY_ADDRESS": address}, home)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=3)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        log.close()


def status_of(url: str, token: Path | None) -> int | None:
    """The HTTP status of a request with or without the token; None while nobody answers."""
    request = urllib.request.Request(url)
    if token is not None:
        request.add_header("Authorization", f"Bearer {token.read_text()}")
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        code = error.code
        error.close()
        return code
    except OSError:
        return None


def job_status(head: Head, submission: str) -> str:
    """What the head says of a job."""
    request = urllib.request.Request(f"{head.address}/api/jobs/{submission}")
    request.add_header("Authorization", f"Bearer {(head.home / 'token').read_text()}")
    with urllib.request.urlopen(request, timeout=10) as answer:
        return str(json.load(answer)["status"])


def submit(head: Head, submission: str, *arguments: str, cwd: Path = REPOSITORY) -> subprocess.CompletedProcess[str]:
    """What the README tells: the working tree is uploaded and the sweep runs from it."""
    command = [str(RAY), "job", "submit", "--submission-id", submission, "--working-dir", "."]
    command += ["--runtime-env-json", job_environment(cwd)]
    command += ["--", sys.executable, "-m", "orchestrator", *arguments]
    return subprocess.run(
        command,
        cwd=cwd,
        env=head.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )


def test_a_job_runs_a_sweep_and_ends_as_the_sweep_did(head: Head, tiny: Path, records) -> None:
    """Its pack of two members runs out of memory on half a GPU; then two packs of one share the GPU."""
    half = ("--set", "resources.gpus=0.5", "--set", "resources.pack=2")
    done = submit(head, "good", "run", str(tiny), *SMALL, *half, "--name", "in a job")
    log = done.stdout + done.stderr
    assert done.returncode == 0 and "succeeded" in done.stdout, log
    folder = head.home / "lengthwise-sweeps" / "in a job"  # not in the copy of the working folder, which is deleted
    assert f"sweep in a job in {folder}" in log and "configurations 0/1" in log
    assert "Ray at " in log and [r.fields["status"] for r in records(folder, "end")] == ["complete"]
    assert (folder / "curves.parquet").is_file() and (folder / "report.html").is_file()
    assert "with 2 CPUs and 1 GPUs: up to 2 packs at once" in log
    assert "a pack of 2 members ran out of memory (a GPU that is not there); it was cut again into 2" in log
    of_packs = [line.split() for line in (head.home / "gpus").read_text().splitlines()]
    assert [gpu for _, gpu, _ in of_packs] == ["GPU-5a"] * 3 and not records(folder, "attempt")
    (first,) = records(folder, "sweep")
    with RepositoryReader([REPOSITORY]) as reader:
        (here,) = reader.read()
    (there,) = first.fields["code"]["folders"]
    assert (there["commit"], there["source"]) == (here.commit, "job" if here.commit else None)

    rate = ("--set", "training.learning_rate=1.0e+30", "--set", "space={}", "--set", "search={}")
    failing = submit(head, "hopeless", "run", str(tiny), "--name", "nan", "--set", "training.steps=40", *rate)
    log = failing.stdout + failing.stderr
    assert failing.returncode != 0 and "0 of 1 configurations succeeded" in log, log
    assert (job_status(head, "hopeless"), job_status(head, "good")) == ("FAILED", "SUCCEEDED")


def test_a_request_without_the_token_is_refused(head: Head) -> None:
    assert status_of(f"{head.address}/api/jobs/", None) == 401
    (head.home / "wrong").write_text("0" * 64)
    assert status_of(f"{head.address}/api/jobs/", head.home / "wrong") in (401, 403)
    assert status_of(f"{head.address}/api/jobs/", head.home / "token") == 200


def test_a_bad_sweep_file_fails_the_job_with_one_message(head: Head, tiny: Path) -> None:
    done = submit(head, "mistaken", "run", str(tiny), "--set", "objective.metric=total_variaton", "--name", "bad")
    log = done.stdout + done.stderr
    assert done.returncode != 0 and "did you mean total_variation?" in log and "Traceback" not in log
    assert not (head.home / "lengthwise-sweeps" / "bad").exists()


OWN_MODEL = '''"""A model of my own."""

from torch import nn

from trainers import Vmapped, register


class Net(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.table, self.gru = nn.Embedding(inputs, 8), nn.GRU(8, 8, batch_first=True)
        self.head = nn.Linear(8, outputs)

    def forward(self, tokens):
        return self.head(self.gru(self.table(tokens))[0])


@register("model", "my_gru")
class MyGru(Vmapped):
    """One GRU layer."""

    def build(self, inputs, outputs, positions):
        return Net(inputs, outputs)
'''


def test_a_job_runs_a_task_and_a_model_of_ones_own_that_travel_with_the_upload(
    head: Head, study: Path, records
) -> None:
    """From a folder that is no clone, with lengthwise installed and nothing of it in PYTHONPATH."""
    assert not study.is_relative_to(REPOSITORY)
    assert str(REPOSITORY) not in head.environment["PYTHONPATH"].split(os.pathsep)
    (study / "my_nets.py").write_text(OWN_MODEL)
    (study / "my_nets_too.yaml").write_text(
        (study / "own.yaml").read_text().replace("imports: [my_tasks]", "imports: [my_tasks, my_nets]")
    )
    model = ("--set", "model={name: my_gru}")
    done = submit(head, "own", "run", "my_nets_too.yaml", *SMALL, *model, "--name", "own", cwd=study)
    log = done.stdout + done.stderr
    assert done.returncode == 0 and "succeeded" in done.stdout, log
    folder = head.home / "lengthwise-sweeps" / "own"
    code, nets = records(folder, "sweep")[0].fields["code"]["modules"]
    assert (code["module"], nets["module"]) == ("my_tasks", "my_nets") and str(study) not in code[
        "root"
    ]  # the copy that was uploaded
    assert [r.fields["status"] for r in records(folder, "end")] == ["complete"]


ASKING = """
from orchestrator.errors import UserError
from orchestrator.running.with_ray import session as ray_session

with ray_session.connected(1, 0.25) as cluster:
    print(cluster.workers, cluster.bytes_per_worker / 2**30)
ray_session.ASK_SECONDS = 0
with ray_session.connected(1, 0.25) as cluster:
    print(cluster.workers, cluster.bytes_per_worker / 2**30, cluster.description)
try:
    with ray_session.connected(1, 2):
        print("no node has two GPUs")
except UserError as error:
    print(error)
"""


def test_the_machines_of_the_cluster_say_how_much_memory_their_gpus_have(head: Head) -> None:
    """If none answers in time, little is assumed, and said; a pack for more GPUs than any of them has is refused."""
    environment = {**head.environment, "RAY_ADDRESS": head.cluster, "CUDA_VISIBLE_DEVICES": ""}  # the driver's own
    command = [sys.executable, "-c", ASKING]
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answered, silent, refused = done.stdout.strip().splitlines()[-3:]
    assert answered == "2 10.0" and silent.startswith("2 4.0 Ray at ")
    assert silent.endswith("; no GPU says how much memory it has, 16 GiB are assumed")  # of which a quarter
    assert refused.startswith("resources: a pack needs 1 CPUs and 2 GPUs on one node; the largest node of Ray at ")
