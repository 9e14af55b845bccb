"""`resume`: what cannot be resumed, and packs that are tried again; commands in messages can be pasted."""

import copy
import html
import re
import shlex
from pathlib import Path

from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.record.ledger.records import encode_record, read_records
from orchestrator.record.state.state import SweepState
from tests.command_line import refused


def test_a_ledger_with_a_model_that_no_memory_holds_is_not_resumed(lengthwise, tiny, tmp_path):
    lengthwise.succeeds("run", tiny, "--storage", tmp_path, "--set", "training.steps=20", "--set", "seeds=1")
    folder = tmp_path / "tiny"
    begun = [record for record in read_records(folder) if record.kind in ("sweep", "configuration")]
    for part, key, value, message in (
        ("model", "width", 10**10, "GiB"),
        ("task", "vocabulary", 10**9, "100000"),
        ("training", "batch_size", 10**12, "GiB"),
    ):
        records = copy.deepcopy(begun)
        for record in records[1:]:
            record.fields["resolved"][part][key] = value
        (folder / LEDGER_FILE).write_bytes(b"".join(map(encode_record, records)))
        refused(lengthwise("resume", folder), message)


def test_an_error_in_a_pack_is_shown_and_the_pack_can_be_tried_again(lengthwise, tiny, tmp_path):
    """Every pack raises, until what it stumbles over is out of its way."""
    folder = tmp_path / "crashing"
    folder.mkdir()
    (folder / "file").touch()
    (folder / "checkpoints").symlink_to("file")  # in the place of a folder
    small = ("--set", "search.configurations=1", "--set", "seeds=1", "--set", "resources.retries=5")
    done = lengthwise("run", tiny, "--storage", tmp_path, "--name", "crashing", *small)
    assert done.returncode == 1 and "Traceback (" not in done.stdout + done.stderr
    *_, crashed, retry, _ = done.stdout.splitlines()
    assert "#0 seed 0" in crashed and "FileExistsError: " in crashed and "watchdog.py:" in crashed
    assert f"lengthwise resume {folder} --retry-failed" in retry and done.stdout.count("1 crashed") == 1
    assert "FileExistsError" in (folder / "report.html").read_text()
    state = SweepState.load(folder)
    (pack,) = state.packs.values()
    assert len(pack.attempts) == 2  # an exception comes again: it is tried once more and no more
    assert "FileExistsError" in lengthwise("status", folder).stdout
    (folder / "checkpoints").unlink()
    assert lengthwise("resume", folder).returncode == 1  # it is finished, and stays so
    again = lengthwise("resume", folder, "--retry-failed")
    assert again.returncode == 0 and "Finished: 1 configuration " in again.stdout, again.stdout + again.stderr
    assert SweepState.load(folder).end_status == "complete" and "FileExistsError" not in again.stdout
    ledger = (folder / LEDGER_FILE).read_bytes()
    lengthwise.succeeds("resume", folder, "--retry-failed")
    assert (folder / LEDGER_FILE).read_bytes() == ledger, "no pack has failed"


def test_commands_in_messages_can_be_pasted_whatever_the_folder_is_called(lengthwise, tiny, tmp_path):
    storage = tmp_path / 'it\'s "mine"'
    folder = storage / "tiny"
    folder.mkdir(parents=True)
    (folder / "file").touch()
    (folder / "checkpoints").symlink_to("file")  # in the place of a folder: every pack raises
    small = ("--set", "search.configurations=1", "--set", "seeds=1")
    ran, again = (lengthwise("run", tiny, "--storage", storage, *small) for _ in range(2))
    assert (ran.returncode, again.returncode) == (1, 2)
    page = html.unescape((folder / "report.html").read_text(encoding="utf-8").partition("<summary>Commands")[2])
    for text, verbs in (
        (ran.stdout, {"status", "resume"}),
        (again.stderr, {"resume"}),
        (lengthwise("status", folder).stdout, {"status", "resume"}),
        (page.partition("</details>")[0], {"run", "report", "extend", "resume", "export", "publish"}),
        (lengthwise("ui", "--storage", folder).stderr, {"ui"}),
    ):
        typed = re.findall(r"lengthwise (\w+ .*?)(?=;|\?|$)", text, re.MULTILINE)
        commands = [shlex.split(small, comments=True) for small in typed]
        assert {words[0] for words in commands} == verbs
        for words in commands:
            assert {str(storage), str(folder), str(folder / "sweep.yaml")} & set(words), words


def test_a_sweep_of_the_storage_folder_is_found_by_its_name(lengthwise, tiny, tmp_path, monkeypatch):
    storage = tmp_path / "kept"
    monkeypatch.setitem(lengthwise.environment, "LENGTHWISE_STORAGE", str(storage))
    assert lengthwise("run", tiny, "--set", "search.configurations=1", "--set", "seeds=1").returncode == 0
    for verb in ("status", "resume"):
        done = lengthwise(verb, "tiny")
        assert done.returncode == 0 and str(storage / "tiny") in done.stdout, done.stderr
    for words in ((), ("--storage", storage)):  # without a sweep: all of the storage folder
        listed = lengthwise("status", *words, cwd=tmp_path)
        assert [line.split()[0] for line in listed.stdout.splitlines()] == ["name", "tiny"], listed
    for words in (("--trace",), ("--follow",), ("--storage", tmp_path / "absent")):
        assert lengthwise("status", *words, cwd=tmp_path).returncode == 2
    wrong = lengthwise("status", "tinny")
    refused(wrong, "tinny", f"did you mean {storage / 'tiny'}?")
    here = Path(__file__).parents[3]
    refused(lengthwise("status", "sweeps/nope"), "sweeps/nope", str(here / "sweeps"))
    for verb in (("report", "other"), ("compare", "other", "0", "1")):
        refused(lengthwise(*verb), "other ", f"{here} and {storage} ", "LENGTHWISE_STORAGE")
