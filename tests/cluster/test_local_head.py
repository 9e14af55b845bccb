"""cluster/local_head.sh without Ray: its token, its options and its end; test_jobs.py starts a real head."""

import os
import re
import shutil
import signal
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "cluster" / "local_head.sh"


def environment(home: Path, **more: str) -> dict[str, str]:
    """The environment without anything of Ray's, with a home folder of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return {**kept, "HOME": str(home), "LENGTHWISE_BIN": str(Path(sys.executable).parent), **more}


def run_script(home: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(SCRIPT), *arguments], env=environment(home, **more), capture_output=True, text=True)


# Answers every request with 401, and writes the path of its files to `files`. Its agent starts a second later, and then
# creates the file `agent`.
ANSWERING = f"""#!{sys.executable}
import http.server, os, sys, threading, time
from pathlib import Path

class Handler(http.server.BaseHTTPRequestHandler):
    log_message = lambda *_: None
    do_GET = lambda self: self.send_error(401)

def serve(option):
    port = sys.argv[sys.argv.index(option) + 1]
    http.server.HTTPServer(("127.0.0.1", int(port)), Handler).serve_forever()

Path(os.environ["HOME"], "files").write_text(os.environ["TMPDIR"])
threading.Thread(target=serve, args=["--dashboard-port"]).start()
time.sleep(1)
Path(os.environ["HOME"], "agent").touch()
serve("--dashboard-agent-listen-port")
"""


def test_sigterm_ends_a_head_in_the_foreground_and_its_files(tmp_path: Path) -> None:
    for name, text in {"python": f'#!/bin/sh\nexec {sys.executable} "$@"\n', "ray": ANSWERING}.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    given = environment(tmp_path, LENGTHWISE_BIN=str(tmp_path))
    with subprocess.Popen(
        [str(SCRIPT)], env=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as script:
        assert script.stdout is not None
        printed = ""
        while "To stop this head" not in printed:
            printed += next(script.stdout)
        files = Path((tmp_path / "files").read_text())
        started = psutil.Process(script.pid).children(recursive=True)
        takes_jobs, has_files = (tmp_path / "agent").exists(), files.is_dir()
        script.send_signal(signal.SIGTERM)
        code = script.wait()
    assert code == 128 + signal.SIGTERM
    assert ", in the foreground\n" in printed and "Ctrl-C here" in printed
    assert takes_jobs and has_files and started
    assert not files.exists() and not any(process.is_running() for process in started)


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
    ("arguments", "message"), [(("--port", "1"), "unknown option: --port"), (("stop",), "unknown option: stop")]
)
def test_wrong_arguments_are_refused_before_anything_is_made(
    tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    asked = run_script(tmp_path, *arguments)
    assert asked.returncode == 2 and message in asked.stderr and "--dashboard-port" in asked.stderr
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
