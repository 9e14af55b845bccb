"""A sweep that publishes with a password in the address: the server is given it, and nobody else."""

import base64
from pathlib import Path
from urllib.parse import quote

import pytest

from orchestrator.tracking.ui.server import free_port

SECRET = "s3cret/w0rd é"
QUOTED = quote(SECRET, safe="")


def leaked(folder: Path, *texts: str) -> list[str]:
    """Where the password is, in any form: files of the sweep, and texts by their number."""
    forms = [SECRET.encode(), QUOTED.encode(), b"s3cret", SECRET.encode("unicode_escape")]
    files = [path for path in folder.rglob("*") if path.is_file()]
    found = [str(path) for path in files if any(form in path.read_bytes() for form in forms)]
    return found + [str(n) for n, text in enumerate(texts) if any(form in text.encode() for form in forms)]


@pytest.mark.slow
@pytest.mark.parametrize("alive", [True, False], ids=["refused", "dead"])
def test_the_password_of_the_tracking_address_is_nowhere(
    lengthwise, tiny, tmp_path, monkeypatch, server, alive
) -> None:
    monkeypatch.setitem(lengthwise.environment, "MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    server.answer, server.body = 401, f"unknown user ada with {SECRET}".encode()
    uri = f"http://ada:{QUOTED}@{server.address if alive else f'127.0.0.1:{free_port()}'}"
    settings = ["--set", "tracking.enabled=true", "--set", "training.steps=20"]
    ran = lengthwise("run", tiny, "--storage", tmp_path / "s", "--tracking-uri", uri, *settings)
    folder = tmp_path / "s" / "tiny"
    assert ran.returncode == 0 and "not published: MLflow at http://ada:***@127.0.0.1" in ran.stdout, ran
    shown = lengthwise("status", folder)
    reported = lengthwise("report", folder)
    again = lengthwise("publish", folder)
    assert again.returncode == 1 and "the password of this address is not kept" in again.stderr
    whole = lengthwise("publish", folder, "--tracking-uri", uri)
    assert whole.returncode == (2 if alive else 1)  # refused, or not reached
    resumed = lengthwise("resume", folder, "--tracking-uri", uri)
    monkeypatch.setitem(lengthwise.environment, "LENGTHWISE_DEBUG", "1")
    traced = lengthwise("publish", folder, "--tracking-uri", uri)
    assert traced.returncode == whole.returncode and "MlflowException" in traced.stderr and "Traceback" in traced.stderr
    all_of_them = (ran, shown, reported, again, whole, resumed, traced)
    every = [text for one in all_of_them for text in (one.stdout, one.stderr)]
    assert not leaked(tmp_path / "s", *every)
    if alive:
        login = base64.b64encode(f"ada:{SECRET}".encode("latin1")).decode()
        assert {headers["Authorization"] for _, headers, _ in server.heard} == {f"Basic {login}"}


def test_a_wrong_address_is_refused_without_its_password(lengthwise, tiny, tmp_path) -> None:
    wrong = lengthwise("run", tiny, "--storage", tmp_path / "s", "--set", f"tracking.uri=[http://a:{QUOTED}@h]")
    assert wrong.returncode == 2 and not leaked(tmp_path, wrong.stdout, wrong.stderr)
