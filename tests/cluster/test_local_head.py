"""cluster/local_head.sh, for real: a token, a head that refuses those without it, one job, and nothing left behind."""

import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import requests

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "cluster" / "local_head.sh"
SMALL = ("--", "--num-cpus", "1", "--object-store-memory", "100000000")


def environment(home: Path, **more: str) -> dict[str, str]:
    """The environment without anything of Ray's, with a home folder of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return {**kept, "HOME": str(home), "LENGTHWISE_BIN": str(Path(sys.executable).parent), **more}


def run_script(home: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(SCRIPT), *arguments], env=environment(home, **more), capture_output=True, text=True)


@dataclass
class Head:
    """A running script, what it printed, and the home folder it was given."""

    process: subprocess.Popen[str]
    printed: str
    home: Path

    @property
    def url(self) -> str:
        return re.findall(r"http://127\.0\.0\.1:\d+", self.printed)[0]

    @property
    def token(self) -> Path:
        return self.home / ".ray" / "auth_token"


@pytest.fixture
def head(tmp_path: Path) -> Iterator[Head]:
    home = tmp_path / "home of somebody"
    home.mkdir()
    log = tmp_path / "printed.txt"
    with log.open("w") as out:
        process = subprocess.Popen([str(SCRIPT), *SMALL], env=environment(home), stdout=out, stderr=out, text=True)
    try:
        deadline = time.monotonic() + 600
        while "To stop this head" not in log.read_text():
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        yield Head(process, log.read_text(), home)
    finally:
        process.terminate()
        process.wait()


def descendants(process: subprocess.Popen[str]) -> list[psutil.Process]:
    return psutil.Process(process.pid).children(recursive=True)


@pytest.mark.slow
def test_a_head_answers_only_with_the_token_and_leaves_nothing(head: Head) -> None:
    assert stat.S_IMODE(head.token.stat().st_mode) == 0o600
    assert re.fullmatch(r"[0-9a-f]{64}", head.token.read_text())
    assert head.token.read_text() not in head.printed
    assert requests.get(f"{head.url}/api/jobs/", timeout=10).status_code == 401
    wrong = requests.get(f"{head.url}/api/jobs/", headers={"Authorization": "Bearer wrong"}, timeout=10)
    assert wrong.status_code in (401, 403)

    (line,) = [line for line in head.printed.splitlines() if " job submit " in line]
    assert line.endswith("--working-dir . -- python -m orchestrator run search_spaces/quickstart.yaml")
    # the printed command, with a smaller job in the place of the sweep and without the upload
    command = line.partition(" --working-dir ")[0] + " -- python -c " + shlex.quote("print(6 * 7, 'came back')")
    job = subprocess.run(command, shell=True, env=environment(head.home), cwd=head.home, capture_output=True, text=True)
    assert job.returncode == 0 and "42 came back" in job.stdout + job.stderr

    started = descendants(head.process)
    assert any("raylet" in one.name() for one in started)
    files = [
        Path(found) for found in re.findall(r"/tmp/lw-head\.\w+", " ".join(map(str, [p.cmdline() for p in started])))
    ]
    assert files
    environments = [one.environ() for one in started if "ray" in one.name()]  # empty: a process that is just ending
    assert {one.get("TMPDIR") for one in environments if one} == {str(files[0])}  # with the rest
    head.process.send_signal(signal.SIGTERM)
    assert head.process.wait() == 128 + signal.SIGTERM
    assert not [one for one in started if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
    assert not any(folder.exists() for folder in files)
    with pytest.raises(requests.ConnectionError):
        requests.get(f"{head.url}/api/jobs/", timeout=5)
    assert head.token.exists()


def test_a_token_that_exists_is_kept_and_made_private(tmp_path: Path) -> None:
    token = tmp_path / ".ray" / "auth_token"
    token.parent.mkdir()
    token.write_text("mine")
    token.chmod(0o644)
    asked = run_script(tmp_path, "--dashboard-port", "99999")
    assert asked.returncode == 1 and "port 99999 on 127.0.0.1 cannot be used" in asked.stderr
    assert token.read_text() == "mine" and stat.S_IMODE(token.stat().st_mode) == 0o600
    assert "made a token" not in asked.stdout


def test_a_token_is_made_where_ray_will_look_for_it(tmp_path: Path) -> None:
    token = tmp_path / "elsewhere" / "token"
    asked = run_script(tmp_path, "--gcs-port", "none", RAY_AUTH_TOKEN_PATH=str(token))
    assert asked.returncode == 1 and f"made a token in {token}" in asked.stdout
    assert stat.S_IMODE(token.stat().st_mode) == 0o600 and not (tmp_path / ".ray").exists()


def test_an_empty_token_file_is_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch()
    asked = run_script(tmp_path, RAY_AUTH_TOKEN_PATH=str(token))
    assert asked.returncode == 2 and f"{token} is empty" in asked.stderr


@pytest.mark.parametrize(
    ("arguments", "said"), [(("--port", "1"), "unknown option: --port"), (("stop",), "unknown option: stop")]
)
def test_wrong_arguments_are_refused_before_anything_is_made(
    tmp_path: Path, arguments: tuple[str, ...], said: str
) -> None:
    asked = run_script(tmp_path, *arguments)
    assert asked.returncode == 2 and said in asked.stderr and "--dashboard-port" in asked.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_an_installation_it_says_what_to_do(tmp_path: Path) -> None:
    asked = run_script(tmp_path, LENGTHWISE_BIN=str(tmp_path))
    assert asked.returncode == 2 and "make install" in asked.stderr


@pytest.mark.parametrize(
    ("storage", "of_jobs"), [("out", "{here}/out"), ("/srv/sweeps", "/srv/sweeps"), ("s3://b/p", "s3://b/p")]
)
def test_a_relative_storage_is_that_of_the_folder_of_the_script(tmp_path: Path, storage: str, of_jobs: str) -> None:
    programs = {"python": f'exec {sys.executable} "$@"', "ray": "echo jobs write to $LENGTHWISE_STORAGE"}
    for name, line in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    given = environment(tmp_path, LENGTHWISE_BIN=str(tmp_path), LENGTHWISE_STORAGE=storage)
    failed = subprocess.run([str(SCRIPT)], env=given, cwd=tmp_path, capture_output=True, text=True)
    shutil.rmtree(failed.stderr.split()[-1])  # Ray's logs are in it
    assert failed.returncode == 1
    assert f"jobs write to {of_jobs.format(here=tmp_path)}\nthe head did not start" in failed.stderr


def test_a_port_in_use_is_refused(tmp_path: Path) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        asked = run_script(tmp_path, "--dashboard-port", port)
    assert asked.returncode == 1 and f"port {port} on 127.0.0.1 cannot be used" in asked.stderr


def test_the_script_never_ends_other_heads() -> None:
    words = SCRIPT.read_text()
    assert not re.search(r"\bray\W+stop\b|\bpkill\b|\bkillall\b", words)
