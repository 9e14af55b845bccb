"""Whom a sweep notifies when it ends: real servers that take it, refuse it and hang; its secrets are nowhere."""

import json
import os
import signal
import socket
import time

import pytest
from typer.testing import CliRunner

from orchestrator.cli import main as cli
from orchestrator.record.state.state import SweepState
from orchestrator.session.webhook import WebhookNotifier, post_fields
from orchestrator.text.redaction import mask_webhook
from search_spaces import dump_yaml, load_sweep
from tests.command_line import run_command_line

SECRET = "T0001/B0002/very-secret-XyZ"
TWO = ("training.steps=20", "space={model.norm: {grid: [none, pre]}}", "search={sampler: grid}")


@pytest.fixture
def file(tiny):
    """A sweep file of two configurations with two seeds."""
    tiny.write_text(dump_yaml(load_sweep(tiny, TWO).resolved()))
    return tiny


def address(server, path=f"/services/{SECRET}"):
    return f"http://{server.address}{path}"


def everything_in(folder):
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_a_finished_sweep_is_posted_once_and_its_address_is_recorded_nowhere(file, server, tmp_path):
    storage = tmp_path / "sweeps"
    done = CliRunner().invoke(
        cli.app, ["run", str(file), "--storage", str(storage), "--notify", address(server)], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    ((path, headers, content),) = server.heard
    fields = json.loads(content)
    assert path == f"/services/{SECRET}" and headers["Content-Type"] == "application/json"
    best = min(SweepState.load(storage / "tiny").configurations.values(), key=lambda configuration: configuration.score)
    assert (fields["sweep"], fields["status"]) == ("tiny", "complete")
    assert all(fields[name] in fields["text"] for name in ("sweep", "status", "message"))
    done_and_planned = (fields["configurations_done"], fields["configurations"])
    assert done_and_planned == (2, 2) and (fields["seeds_done"], fields["seeds_failed"]) == (4, 0)
    assert (fields["best_configuration"], fields["best_score"]) == (best.number, best.score)
    shown = mask_webhook(address(server))
    assert f"notified {shown}" in done.output and SECRET not in done.output
    assert SECRET.encode() not in everything_in(storage) and f"notify: {shown}".encode() in everything_in(storage)
    again = CliRunner().invoke(cli.app, ["resume", str(storage / "tiny")], catch_exceptions=False)
    assert again.exit_code == 0 and "the ledger has only its host" in again.output
    again = CliRunner().invoke(cli.app, ["resume", str(storage / "tiny"), "--notify", address(server)])
    assert again.exit_code == 0 and len(server.heard) == 2
    more = ["extend", str(storage / "tiny"), "--seeds", "+1", "--notify", address(server)]
    done = CliRunner().invoke(cli.app, more, catch_exceptions=False)
    assert done.exit_code == 0 and len(server.heard) == 3
    longer = ["extend", str(storage / "tiny"), "--steps", "25", "--notify", address(server)]
    done = CliRunner().invoke(cli.app, longer, catch_exceptions=False)
    assert done.exit_code == 0 and len(server.heard) == 4
    assert json.loads(server.heard[-1][2])["sweep"] == "tiny-steps-25"
    assert SECRET.encode() not in everything_in(storage)


def test_it_changes_no_identity(file):
    without, with_it = load_sweep(file), load_sweep(file, [f"notify=http://host/{SECRET}"])
    assert without.spec_hash == with_it.spec_hash and "notify" not in without.resolved()


@pytest.mark.parametrize("given", [f"ftp://host/{SECRET}", SECRET, f"http:///{SECRET}", f"http://h:x/{SECRET}"])
def test_what_is_no_address_is_refused_without_showing_it(file, given, monkeypatch, capsys, tmp_path):
    for words in (["--notify", given], ["--set", f"notify={given}"]):
        monkeypatch.setattr("sys.argv", ["lengthwise", "run", str(file), "--storage", str(tmp_path / "s"), *words])
        with pytest.raises(SystemExit) as ended:
            run_command_line()
        message = capsys.readouterr().err
        assert ended.value.code == 2 and "not an http or https address" in message and SECRET not in message
        assert message.startswith(words[0].replace("--set", "--set notify=***") + ":")
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(("answer", "message"), [(200, None), (404, "HTTP status 404"), (302, "HTTP status 302")])
def test_a_refusal_is_a_problem_in_words(server, answer, message):
    server.answer = answer
    userinfo = address(server, "/x").replace("//", "//ada:p%40ss@")
    assert post_fields(userinfo, {"text": "x"}) == message
    ((_, headers, _),) = server.heard
    assert headers["Authorization"] == "Basic YWRhOnBAc3M="  # ada:p@ss


def test_servers_that_are_absent_or_hang_cost_seconds_only(small_sweep, capsys):
    from rich.console import Console

    with socket.socket() as absent:
        absent.bind(("127.0.0.1", 0))
        assert post_fields(f"http://127.0.0.1:{absent.getsockname()[1]}/{SECRET}", {}) == "Connection refused"
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/{SECRET}"
        assert post_fields(url, {}, 0.3) in ("no response within 0.3 s", "TimeoutError")
        WebhookNotifier(url.replace("127.0.0.1", "no such host")).send(small_sweep.folder, "complete", "", Console())
    output = capsys.readouterr().out
    assert output.startswith("warning: http://no such host") and SECRET not in output


@pytest.mark.slow
def test_an_interruption_is_posted(lengthwise, file, server, tmp_path):
    long = ("--set", "training.steps=1000000", "--set", "evaluation.every=1000")
    running = lengthwise.start("run", file, "--storage", tmp_path / "s", *long, "--notify", address(server))
    for line in running.stdout:
        if "at once" in line:
            break
    time.sleep(0.5)
    os.kill(running.pid, signal.SIGTERM)
    output = "".join(running.communicate())
    assert running.returncode == 130 and SECRET not in output, output
    ((_, _, content),) = server.heard
    fields = json.loads(content)
    assert (fields["status"], fields["message"]) == ("interrupted", "stopped by a signal")


def test_an_error_that_ends_the_command_is_posted(file, server, tmp_path, monkeypatch):
    from orchestrator.sweep import run_and_resume as module

    def broken(*_, **__):
        raise RuntimeError("no such luck at http://ada:s3cret@host")

    monkeypatch.setattr(module, "train_missing", broken)
    done = CliRunner().invoke(
        cli.app, ["run", str(file), "--storage", str(tmp_path / "s"), "--notify", address(server)]
    )
    assert isinstance(done.exception, RuntimeError)
    ((_, _, content),) = server.heard
    fields = json.loads(content)
    assert fields["status"] == "failed" and fields["message"].endswith("at http://ada:***@host")
