"""A sweep that publishes with a password in MLflow's variable: the server is given it, and nobody else."""

import base64
import uuid
from pathlib import Path

import pytest

from tests.ports import free_ports

SECRET = uuid.uuid4().hex  # in no diff of this repository, which a sweep keeps


def leaked(folder: Path, *texts: str) -> list[str]:
    """Return where the password is: files of the sweep, and texts by their number."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    paths = [str(path) for path in files if SECRET.encode() in path.read_bytes()]
    return paths + [str(number) for number, text in enumerate(texts) if SECRET in text]


@pytest.mark.slow
def test_the_password_of_mlflows_variable_is_nowhere(lengthwise, tiny, tmp_path, monkeypatch, server) -> None:
    """Not while a server refuses it, and not once the server is dead."""
    server.answer, server.body = 401, f"who is http://ada:{SECRET}@host?".encode()
    dead, folder = f"127.0.0.1:{free_ports(1)[0]}", tmp_path / "s" / "tiny"

    def name_server(address: str) -> None:
        monkeypatch.setitem(lengthwise.environment, "MLFLOW_TRACKING_URI", f"http://ada:{SECRET}@{address}")

    monkeypatch.setitem(lengthwise.environment, "MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    name_server(server.address)
    settings = ["--set", "tracking.enabled=true", "--set", "training.steps=20"]
    ran = lengthwise("run", tiny, "--storage", tmp_path / "s", *settings)
    assert ran.returncode == 0 and f"not published: MLflow at http://{server.address}" in ran.stdout, ran
    assert f"http://{server.address}" in (folder / "sweep.yaml").read_text()
    monkeypatch.setitem(lengthwise.environment, "LENGTHWISE_DEBUG", "1")
    outputs = [ran, *(lengthwise(verb, folder) for verb in ("status", "report"))]
    for address, code in ((server.address, 2), (dead, 1)):  # refused, or not reached
        name_server(address)
        outputs.append(lengthwise("publish", folder, "--tracking-uri", f"http://{address}"))
        assert outputs[-1].returncode == code and "Traceback" in outputs[-1].stderr
    resumed = lengthwise("resume", folder, "--tracking-uri", f"http://{dead}")
    assert resumed.returncode == 0 and f"not published: MLflow at http://{dead}" in resumed.stdout, resumed
    texts = [text for output in [*outputs, resumed] for text in (output.stdout, output.stderr)]
    assert not leaked(tmp_path / "s", *texts)
    login = base64.b64encode(f"ada:{SECRET}".encode()).decode()
    assert {headers["Authorization"] for _, headers, _ in server.heard} == {f"Basic {login}"}


@pytest.mark.parametrize("given", ["--tracking-uri", "--set", "the file"])
def test_an_address_with_a_password_is_refused(lengthwise, tiny, tmp_path, given) -> None:
    address = f"http://ada:{SECRET}@host:5000"
    words = {"--tracking-uri": [given, address], "--set": [given, f"tracking.uri={address}"]}.get(given, [])
    if not words:
        tiny.write_text(tiny.read_text().replace("tracking:", f"tracking: {{uri: '{address}'}}\nbudget:"))
    refused = lengthwise.refuses("run", tiny, "--storage", tmp_path / "s", *words, message="MLFLOW_TRACKING_PASSWORD")
    assert "http://ada:***@host:5000" in refused.stderr and SECRET not in refused.stdout + refused.stderr
    assert not (tmp_path / "s").exists()
