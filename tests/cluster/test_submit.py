"""Jobs on a real head with a token: by `ray job submit`, and by `lengthwise submit`, left alone and resumed."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pytest
import requests

from orchestrator.code.repository import RepositoryReader, job_environment
from orchestrator.errors import UserError
from orchestrator.submission.job_server import Job, JobServer
from orchestrator.submission.package import write_archive
from orchestrator.submission.submit import Submission, run_verb
from search_spaces import load_sweep
from tests.cluster.virtual_nodes import options, read_curves
from tests.command_line import CommandLine
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
training: {steps: 400, batch_size: 4, learning_rate: 0.01, averages: {raw: {}}, compile: false}
seeds: 2
evaluation: {samples: 20, every: 100}
objective: {metric: total_variation, average: raw, lengths: [4], direction: minimize}
resources: {pack: 1, checkpoint_seconds: 1}
tracking: {enabled: false}
"""
SHORT = ("--set", "training.steps=4", "--set", "evaluation={samples: 20}", "--name", "short")


@dataclass(frozen=True)
class Head:
    """A head that wants a token; `environment` is that of somebody who has it.

    While the file `hold` exists, every pack waits after each of its evaluations; packs that need the GPU train on the
    CPU and are listed in the file `gpus` (tests/startup). `cluster` is where drivers connect.
    """

    address: str
    cluster: str
    environment: dict[str, str]
    storage: Path
    hold: Path
    gpus: Path

    def submit(self, *words: object, **variables: str) -> subprocess.CompletedProcess[str]:
        """Run `lengthwise submit` in a process that has imported the engine; a process reads its token once."""
        command = CommandLine(Path(self.environment["HOME"]))
        command.environment = self.environment
        try:
            return command.process("submit", *words, "--address", self.address, **variables)
        finally:
            command.close()


@pytest.fixture(scope="module")
def head(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Head]:
    """A head that believes that it has a GPU: an nvidia-smi of its own gives it 40 GiB, and 80 to all others here."""
    home = tmp_path_factory.mktemp("home")
    (home / "nvidia-smi").write_text(
        "#!/bin/sh\ncase $* in *--id=GPU-5a) echo 40960, Disabled;; *) echo 81920, Disabled;; esac\n"
    )
    (home / "nvidia-smi").chmod(0o755)
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "LENGTHWISE_"))}
    storage, hold, gpus = home / "sweeps", home / "hold", home / "gpus"
    bin, path = str(Path(sys.executable).parent), os.pathsep.join([str(ROOT / "tests" / "startup"), str(ROOT)])
    environment = outside | {"HOME": str(home), "PYTHONPATH": path, "LENGTHWISE_BIN": bin, "HOLD": str(hold)}
    environment |= {"PATH": f"{home}:{outside['PATH']}", "PRETENDED_GPUS": str(gpus), "ROOM": "1"}
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
    try:
        address = re.findall(r"http://127\.0\.0\.1:\d+", started.stdout)[0]
        assert requests.get(f"{address}/api/jobs/", timeout=10).status_code == 401
        yield Head(address, f"127.0.0.1:{port}", environment | {"RAY_AUTH_MODE": "token"}, storage, hold, gpus)
        members = process.children(recursive=True)
        assert any("raylet" in one.name() for one in members)
    finally:
        members = process.children(recursive=True)
        process.terminate()
        psutil.wait_procs([process, *members], timeout=60)
        Path(re.findall(r"Its messages: (\S+)", started.stdout)[0]).unlink()
    assert not [one for one in members if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]


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
    return [one for one in map(json.loads, lines) if one["kind"] == kind]


def wait_for(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def ray_job(head: Head, *words: str) -> subprocess.CompletedProcess[str]:
    """Submit a command as the README tells: the working tree is uploaded and the sweep runs from it."""
    command = [str(Path(sys.executable).with_name("ray")), "job", "submit", "--address", head.address]
    command += ["--working-dir", ".", "--runtime-env-json", job_environment(ROOT)]
    command += ["--", sys.executable, "-m", "orchestrator", *words]
    return subprocess.run(command, cwd=ROOT, env=head.environment, capture_output=True, text=True)


@pytest.mark.slow
def test_a_job_runs_a_sweep_of_the_working_tree(head: Head, study: Path) -> None:
    """Its pack of two members runs out of memory on half a GPU; then two packs of one share the GPU."""
    settings = ("training.steps=4", "evaluation.every=4", "resources.gpus=0.5", "resources.pack=2")
    done = ray_job(head, "run", str(study / "mine.yaml"), *options(*settings), "--name", "in a job")
    log, folder = done.stdout + done.stderr, head.storage / "in a job"  # not in the copy, which is deleted
    assert done.returncode == 0 and "1 of 1 configurations succeeded" in done.stdout, log
    assert f"sweep in a job in {folder}" in log and "configurations 0/1" in log and "Ray at " in log
    assert [one["data"]["status"] for one in records(folder, "end")] == ["complete"]
    assert (folder / "curves.parquet").is_file() and (folder / "report.html").is_file()
    assert "with 2 CPUs and 1 GPUs: up to 2 packs at once" in log
    assert "a pack of 2 members ran out of memory (a GPU that is not there); it was cut again into 2" in log
    of_packs = [line.split() for line in head.gpus.read_text().splitlines()]
    assert [gpu for _, gpu, _ in of_packs] == ["GPU-5a"] * 3 and not records(folder, "attempt")
    with RepositoryReader([ROOT]) as reader:
        (here,) = reader.read()
    code = records(folder, "sweep")[0]["data"]["code"]
    found = [(one["commit"], one["source"]) for one in code["folders"] if one["source"] == "job" or not here.commit]
    assert found == [(here.commit, "job" if here.commit else None)], code


@pytest.mark.slow
def test_a_bad_sweep_file_fails_the_job_with_one_message(head: Head, study: Path) -> None:
    done = ray_job(head, "run", str(study / "mine.yaml"), "--set", "objective.metric=total_variaton", "--name", "bad")
    log = done.stdout + done.stderr
    assert done.returncode != 0 and "did you mean total_variation?" in log and "Traceback" not in log
    assert "failed" in log and not (head.storage / "bad").exists()


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


@pytest.mark.slow
def test_the_machines_of_the_cluster_say_how_much_memory_their_gpus_have(head: Head) -> None:
    """If none answers in time, little is assumed, and said; a pack for more GPUs than any of them has is refused."""
    environment = {**head.environment, "RAY_ADDRESS": head.cluster, "CUDA_VISIBLE_DEVICES": ""}  # the driver's own
    command = [sys.executable, "-c", ASKING]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answered, silent, refused = done.stdout.strip().splitlines()[-3:]
    assert answered == "2 10.0" and silent.startswith("2 4.0 Ray at ")
    assert silent.endswith("; no GPU says how much memory it has, 16 GiB are assumed")  # of which a quarter
    assert refused.startswith("resources: a pack needs 1 CPUs and 2 GPUs on one node; the largest node of Ray at ")


@pytest.mark.slow
def test_a_sweep_is_submitted_once_and_followed_to_its_end(head: Head, study: Path) -> None:
    (study / ".env").write_text("PASSWORD=open sesame")
    done = head.submit(study / "mine.yaml", *SHORT, "--python", sys.executable, "--job-env", "GREETING=hello")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "not uploaded, because they look like secrets: .env" in done.stdout
    assert "1 of 1 configurations" in done.stdout and done.stdout.endswith("succeeded\n")
    assert len(records(head.storage / "short", "end")) == 1
    (code,) = records(head.storage / "short", "sweep")[0]["data"]["code"]["modules"]
    assert code["module"] == "my_tasks" and str(study) not in code["root"]  # the copy that was uploaded
    again = head.submit(study / "mine.yaml", *SHORT, "--python", sys.executable)
    assert (
        again.returncode == 2 and "has been submitted to" in again.stderr and "with --resume resumes it" in again.stderr
    )
    stopped = head.submit(study / "mine.yaml", *SHORT, "--stop")
    assert stopped.returncode == 2 and "nothing was stopped" in stopped.stderr


@pytest.mark.slow
def test_left_alone_refused_stopped_and_resumed_it_ends_with_the_same_curves(
    head: Head, study: Path, run_inline: Callable[..., Path], own_code_forgotten: None
) -> None:
    file, folder = study / "mine.yaml", head.storage / "my study"
    head.hold.touch()
    words = ["-m", "orchestrator", "submit", str(file), "--address", head.address, "--python", sys.executable]
    follower = subprocess.Popen([sys.executable, *words], env=head.environment, stdout=subprocess.PIPE, text=True)
    wait_for(lambda: records(folder, "evaluation") or follower.poll() is not None)
    follower.send_signal(signal.SIGINT)
    said = follower.communicate(timeout=PATIENCE)[0]
    assert follower.returncode == 130 and "the job continues" in said, said
    refused = head.submit(file)
    assert refused.returncode == 2 and "sweep my study is running at" in refused.stderr
    other = head.submit(file, "--set", "seeds=3")
    assert other.returncode == 2 and "sweep my study is running at" in other.stderr
    shown = head.submit(file, "--status")
    assert shown.returncode == 0 and re.search(r"^status +running$", shown.stdout, re.M)

    stopped = head.submit(file, "--stop")
    assert stopped.returncode == 0 and "stopped; the same command with --resume" in stopped.stdout, (
        stopped.stdout + stopped.stderr
    )
    assert [one["data"]["status"] for one in records(folder, "end")] == ["interrupted"], stopped.stdout
    head.hold.unlink()
    resumed = head.submit(file, "--resume", "--python", sys.executable)
    assert resumed.returncode == 0 and len(records(folder, "resume")) == 1, resumed.stdout + resumed.stderr
    here = run_inline(file)
    pd.testing.assert_frame_equal(read_curves(folder), read_curves(here), check_exact=True)


@pytest.mark.slow
def test_a_wrong_or_missing_token_is_one_sentence(head: Head, study: Path) -> None:
    for variables, said in (
        ({"RAY_AUTH_TOKEN": "0" * 64, "RAY_API_SERVER_ADDRESS": "http://127.0.0.1:9"}, "rejected the token"),
        ({"RAY_AUTH_MODE": "disabled"}, "asks for a token"),
    ):
        done = head.submit(study / "mine.yaml", "--name", "tokenless", **variables)
        assert done.returncode == 2 and said in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr
    (study / "mine.yaml").write_text(SWEEP.replace("steps: 400", "steps: many"))
    done = head.submit(study / "mine.yaml", "--name", "tokenless")
    assert done.returncode == 2 and "steps" in done.stderr
    assert not (head.storage / "tokenless").exists()


def test_nobody_at_the_address_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UserError, match="no Ray cluster is named"):
        JobServer(None)
    for address in ("http://127.0.0.1:9", "127.0.0.1:9", "ray://127.0.0.1:9"):
        with pytest.raises(UserError, match=f"{address}: no Ray cluster answers there"):
            JobServer(address)
    monkeypatch.setenv("RAY_API_SERVER_ADDRESS", "http://127.0.0.1:8")
    with pytest.raises(UserError, match=r"127\.0\.0\.1:8: no"):
        JobServer(None)
    with pytest.raises(UserError, match=r"127\.0\.0\.1:9: no"):
        JobServer("http://127.0.0.1:9")
    with pytest.raises(UserError, match="not the address of a cluster; allowed"):
        JobServer("auto")


def test_the_archive_lacks_results_data_environments_and_secrets(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LENGTHWISE_DATA", str(study / "texts"))
    for name in (
        *(".env", "id_ed25519", "keys/server.pem", "credentials.json"),
        *(".git/config", "env/pyvenv.cfg", "env/lib/torch.so", "__pycache__/a.pyc"),
        *("old/sweep/events.jsonl", "old/sweep/curves.parquet", "texts/wiki.bin", "scratch/x", "lib/my_nets.py"),
        *("lib/my_secrets.py", "lib/password_tasks.py", "tests/test_secrets.py"),
    ):
        (study / name).parent.mkdir(parents=True, exist_ok=True)
        (study / name).write_text("x")
    (study / ".gitignore").write_text("scratch/\n")
    secrets = write_archive(study, tmp_path / "a.zip")
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        code = ["lib/my_nets.py", "lib/password_tasks.py", "mine.yaml", "my_tasks.py", "tests/test_secrets.py"]
        assert sorted(archive.namelist()) == [".gitignore", *code]
    assert secrets == [".env", "credentials.json", "id_ed25519", "keys/server.pem", "lib/my_secrets.py"]
    os.utime(study / "mine.yaml", (0, 0))
    write_archive(study, tmp_path / "b.zip")
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()
    (study / os.fsdecode(b"caf\xe9.txt")).touch()
    with pytest.raises(UserError, match=r"caf\\udce9\.txt' cannot be uploaded: its name is not UTF-8; rename it"):
        write_archive(study, tmp_path / "c.zip")
    with (study / "big.bin").open("wb") as file:
        file.truncate(101 * 2**20)
    with pytest.raises(UserError, match=r"would upload 101 MiB, and the limit is 100 MiB \(big.bin 101 MiB"):
        write_archive(study, tmp_path / "d.zip")
    assert not (tmp_path / "d.zip").exists()


def test_an_archive_without_a_file_that_the_sweep_needs_is_refused(
    study: Path, tmp_path: Path, own_code_forgotten: None
) -> None:
    (study / "my_tasks.py").unlink()
    (study / "my_tasks").mkdir()
    for name, text in {"__init__.py": "from my_tasks.mine import Mine", "mine.py": TASK}.items():
        (study / "my_tasks" / name).write_text(text)
    (study / "mine.yaml").rename(study / "password_study.yaml")
    file = study / "password_study.yaml"
    given = {"arguments": [], "variables": [], "python": "python", "resume": False}
    submission = Submission(spec=load_sweep(file), file=file, folder=study, **given)
    needed = [path.relative_to(study).as_posix() for path in submission.needed_files()]
    assert needed == ["password_study.yaml", "my_tasks/__init__.py", "my_tasks/mine.py"]
    with pytest.raises(UserError, match=r"password_study\.yaml: the sweep needs this file, .* a secret; rename it"):
        write_archive(study, tmp_path / "a.zip", submission.needed_files())
    for ignored in ("my_tasks", "my_tasks/mine.py"):
        (study / ".gitignore").write_text(ignored)
        with pytest.raises(
            UserError, match=r"my_tasks/.*py: the sweep needs this file, .*: left out are what \.gitignore and"
        ):
            write_archive(study, tmp_path / "a.zip", submission.needed_files()[1:])
    assert not (tmp_path / "a.zip").exists()


def test_a_folder_that_is_a_link_is_not_uploaded_and_a_file_is(
    study: Path, tmp_path: Path, own_code_forgotten: None
) -> None:
    (tmp_path / "elsewhere").mkdir()
    (study / "my_tasks.py").rename(tmp_path / "elsewhere" / "__init__.py")
    (study / "my_tasks").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "claims.yaml").write_text("claims: []")
    (study / "claims.yaml").symlink_to(tmp_path / "claims.yaml")
    file = study / "mine.yaml"
    given = {"arguments": [], "variables": [], "python": "python", "resume": False}
    spec = load_sweep(file).model_copy(update={"claims": "claims.yaml"})
    submission = Submission(spec=spec, file=file, folder=study, **given)
    assert submission.needed_files()[1] == study / "claims.yaml"
    with pytest.raises(UserError, match=r"my_tasks/__init__\.py: the sweep needs this file, .* folders that are links"):
        write_archive(study, tmp_path / "a.zip", submission.needed_files())
    (study / "my_tasks").unlink()
    assert write_archive(study, tmp_path / "a.zip", submission.needed_files()[:2]) == []
    with zipfile.ZipFile(tmp_path / "a.zip") as archive:
        assert archive.namelist() == ["claims.yaml", "mine.yaml"]


class PretendedServer:
    """A job server without a cluster, whose jobs end at once; `rows` are (id, sweep, hash of its specification)."""

    address = "http://head:8265"

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str]] = []

    def jobs(self, sweep: str) -> list[Job]:
        return [self.job(id) for id, name, _ in self.rows if name == sweep]

    def job(self, id: str) -> Job:
        ended = {"status": "STOPPED", "message": "", "started": 0.0, "exit_code": None}
        return next(Job(id=one, spec_hash=hash, **ended) for one, _, hash in self.rows if one == id)

    def ids(self) -> set[str]:
        return {id for id, *_ in self.rows}

    def submit(self, id: str, entrypoint: str, archive: Path, variables: object, sweep: str, hash: str) -> None:
        assert id not in self.ids()
        self.rows.append((id, sweep, hash))


def test_a_job_has_an_id_that_no_other_has(
    study: Path, own_code_forgotten: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, file = PretendedServer(), study / "mine.yaml"
    monkeypatch.setattr("orchestrator.submission.submit.JobServer", lambda address: server)

    def submit(name: str, resume: bool = False) -> str:
        given = {"arguments": [], "variables": [], "python": "python", "resume": resume}
        spec = load_sweep(file, name=name)
        assert run_verb(Submission(spec=spec, file=file, folder=study, **given), None, ["--detach"], print) == 0
        return server.rows[-1][0]

    first = submit("plain")
    assert re.fullmatch(r"lengthwise-plain-[0-9a-f]+", first)
    assert [submit("plain", resume=True) for _ in range(2)] == [f"{first}-2", f"{first}-3"]
    server.rows = server.rows[1:]
    assert submit("plain", resume=True) == first
    assert submit("实验一") != submit("实验二")
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]+", id) for id in server.ids())


def test_what_a_job_cannot_run_is_refused_before_anything_is_uploaded(
    study: Path, tmp_path: Path, own_code_forgotten: None
) -> None:
    def submission(**changes: Any) -> Submission:
        file = study / "mine.yaml"
        given = {"file": file, "folder": study, "arguments": ["--name", "a b"], "variables": [], "python": "python"}
        return Submission(**{"spec": load_sweep(file), "resume": False, **given, **changes})

    assert submission().entrypoint() == "python -m orchestrator run mine.yaml --name 'a b'"
    assert submission(folder=tmp_path).entrypoint().split()[4] == "study/mine.yaml"
    (tmp_path / "elsewhere").mkdir()
    with pytest.raises(UserError, match=r"mine\.yaml is not in .*elsewhere, which is uploaded"):
        submission(folder=tmp_path / "elsewhere").entrypoint()
    assert submission(variables=["A=1=2", "B="]).environment(print).items() >= {"A": "1=2", "B": ""}.items()
    for wrong in ("A", "=1", "1A=2", "A B=2"):
        with pytest.raises(UserError, match="allowed: KEY=VALUE"):
            submission(variables=[wrong]).environment(print)
    with pytest.raises(UserError, match=r"--job-env MLFLOW_TRACKING_PASSWORD=\.\.\.: the dashboard .*/credentials"):
        submission(variables=["MLFLOW_TRACKING_PASSWORD=open sesame"]).environment(print)
    with pytest.raises(UserError, match=r"--job-env MLFLOW_TRACKING_URI=https://ada:\*\*\*@host: the dashboard"):
        submission(variables=["MLFLOW_TRACKING_URI=https://ada:open-sesame@host"]).environment(print)
    for webhook in ("notify=https://hooks.example.org/T1/B2", "notify='https://hooks.example.org/T1'"):
        with pytest.raises(UserError, match=r"^--set notify=\*\*\*: the dashboard and `ps` show .* sweep file"):
            submission(arguments=["--set", webhook]).entrypoint()
    assert submission(arguments=["--set", "notify=null"]).entrypoint().endswith("--set notify=null")
    with pytest.raises(UserError, match=r"--job-env LENGTHWISE_STORAGE=sweeps is relative, .* temporary copy; allowed"):
        submission(variables=["LENGTHWISE_STORAGE=sweeps"]).environment(print)
    submission(variables=["LENGTHWISE_STORAGE=s3://bucket/sweeps"]).environment(print)
    for uri, lasts in (("sqlite:///rel.db", False), ("sqlite:////srv/a.db", True), ("http://mlflow:5000", True)):
        given = submission(spec=load_sweep(study / "mine.yaml", [f"tracking.uri={uri}"]))
        if lasts:
            given.entrypoint()
            continue
        with pytest.raises(UserError, match=r"tracking\.uri sqlite:///rel\.db is relative, .* temporary copy; allowed"):
            given.entrypoint()
    given = submission(
        spec=load_sweep(study / "mine.yaml", ["tracking.uri=https://ada:open-sesame@mlflow.example.org"])
    )
    with pytest.raises(UserError, match=r"^https://ada:\*\*\*@mlflow\.example\.org: the dashboard .*/credentials"):
        given.entrypoint()
    address = "tracking.uri='https://ada:open-sesame@mlflow.example.org'"
    with pytest.raises(UserError, match=r"ada:\*\*\*@mlflow\.example\.org.*: the dashboard .*/credentials"):
        submission(arguments=["--set", address]).entrypoint()
