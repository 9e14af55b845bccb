"""`run`: what is refused before anything is written, and what a sweep leaves behind however it ends."""

import os
import resource
import shutil

import pytest
import yaml

from orchestrator.record.ledger import folders as places
from orchestrator.record.ledger.lock import SweepLock
from orchestrator.record.state.state import SweepState
from tests.command_line import refused
from tests.orchestrator.running.ledgers import sets


def test_a_sweep_that_exists_or_runs_is_refused_before_torch_is_imported(lengthwise, tiny, tmp_path):
    tiny.write_text(tiny.read_text().replace(", direction: minimize", "").replace("steps: 60", "steps: 2"))
    assert lengthwise("run", tiny, "--storage", tmp_path).returncode == 0
    verbs = {
        ("run", tiny, "--storage", tmp_path): f"lengthwise report {tmp_path / 'tiny'}",
        ("resume", tmp_path / "tiny"): str(os.getpid()),
        ("extend", tmp_path / "tiny", "--seeds", "3"): str(os.getpid()),
    }
    program = f"import sys, orchestrator.__main__ as one\nfor words in {[[*map(str, words)] for words in verbs]}:\n"
    program += "    sys.argv[1:] = words\n    try: one.command()\n"
    program += "    except SystemExit as end: print(end.code, 'torch' in sys.modules)"
    with SweepLock(tmp_path / "tiny"):
        done = lengthwise.process(program=program, anew=True)
    assert done.stdout == "2 False\n" * 3
    assert all(named in line for named, line in zip(verbs.values(), done.stderr.splitlines(), strict=True))


def test_invalid_key_is_reported_before_spec_mismatch(lengthwise, tiny, tmp_path):
    again = ("run", tiny, "--storage", tmp_path, "--set", "training.steps=2", "--set")
    assert lengthwise(*again[:-1]).returncode == 0
    lengthwise.refuses(*again, "seeds=1", message="seeds")
    (line,) = lengthwise.refuses(*again, "seeds=1", "--set", "model.widht=3", message="model.widht").stderr.splitlines()
    assert "seeds" not in line


def test_bad_input_is_one_message_and_nothing_is_written(lengthwise, tiny, tmp_path):
    storage = tmp_path / "storage"
    wrong = lengthwise("run", tiny, "--storage", storage, "--set", "model.name=attention_olny")
    refused(wrong, "attention_only", "--set model.name")
    text = tiny.read_text()
    tiny.write_text(text.replace("average: ema", "average: bema"))
    refused(lengthwise("run", tiny, "--storage", storage), "tiny.yaml:17: objective.average", "did you mean ema?")
    tiny.write_text(text.replace("metric: total", "metric: totl"))
    refused(lengthwise("run", tiny, "--storage", storage), "tiny.yaml:17: objective.metric", "total_variation?")
    tiny.write_text(text.replace("width: 8,", "width: -8,").replace("steps: 60", "steps: 0"))
    refused(lengthwise("run", tiny, "--storage", storage), "tiny.yaml:4: model.width", "tiny.yaml:6: training.steps")
    refused(lengthwise("run", tmp_path / "absent.yaml", "--storage", storage), "absent.yaml")
    refused(lengthwise("run", tiny, "--name", "../evil", "--storage", storage), "--name")
    for words in (("--seeds", "10"), ("--seeds=10",)):
        refused(lengthwise("run", tiny, "--storage", storage, *words), "--seeds", "--set seeds=10")
    typed = lengthwise("run", tiny, "--stroage", storage)
    assert typed.returncode == 2 and "--storage" in typed.stderr and "--set" not in typed.stderr
    for words in (("run", tiny), ("publish", "tiny")):
        done = lengthwise(*words, "--storage", storage, "--tracking-uri", "mlruns")
        refused(done, "--tracking-uri", "'mlruns'", "allowed: sqlite:///FILE, http://HOST:PORT")
    (tmp_path / "notes.db").write_text("not a database")
    at_notes = ("--tracking-uri", f"sqlite:///{tmp_path / 'notes.db'}")
    refused(lengthwise("run", tiny, "--storage", storage, *at_notes), *at_notes)
    refused(lengthwise("ui", *at_notes), *at_notes)
    refused(lengthwise("ui", "--tracking-uri", f"sqlite:///{tmp_path}"), f"sqlite:///{tmp_path}'", "folder")
    tiny.write_text(text.replace("{enabled: false}", f"{{uri: {at_notes[1]}}}"))
    refused(lengthwise("run", tiny, "--storage", storage), "tracking.uri: ", at_notes[1])
    tiny.write_text(text.replace("{enabled: false}", "{uri: file:///mlruns}"))
    refused(lengthwise("run", tiny, "--storage", storage), "tracking.uri: ", "given 'file:")
    refused(lengthwise("resume", tmp_path / "nothing"), str(tmp_path / "nothing"))
    refused(lengthwise("status", tmp_path / "nothing"), str(tmp_path / "nothing"))
    refused(lengthwise("list", "taks"), "did you mean task?")
    assert not storage.exists() and not (tmp_path / "nothing").exists()


@pytest.mark.slow
def test_a_name_in_unicode_one_seed_and_a_configuration_that_diverges(lengthwise, tiny, tmp_path, fresh_store):
    """Everything at once: the sweep succeeds with what succeeded, publishes, and reads back."""
    space = "space={training.learning_rate: {grid: [0.003, 1.0e+30]}}"
    settings = ("--set", space, "--set", "search={sampler: grid}", "--set", "seeds=1", "--set", "tracking.enabled=true")
    storage = tmp_path / "Größe 1"
    storage.mkdir()
    shutil.copy(fresh_store, storage)
    done = lengthwise.succeeds("run", tiny, "--storage", storage, "--name", "Länge über alles", *settings)
    assert "1 failed" in done.stdout and "Traceback" not in done.stderr
    folder = storage / "Länge über alles"
    state = SweepState.load(folder)
    good, bad = (configuration.members[0].status for configuration in state.configurations.values())
    assert (good, bad) == ("complete", "failed") and state.published_at
    stored = yaml.safe_load((folder / "sweep.yaml").read_text())
    assert stored["name"] == "Länge über alles" and stored["seeds"] == [0]
    status = lengthwise("status", folder).stdout
    assert "seeds failed" in status and "1 of 2" in status
    before = (folder / "report.html").read_bytes()
    (folder / "report.html").unlink()
    assert lengthwise("report", folder).returncode == 0 and (folder / "report.html").read_bytes() == before
    published = lengthwise("publish", folder)
    assert published.returncode == 0 and "0 new points sent" in published.stdout


def test_no_success_is_exit_code_one(lengthwise, tiny, tmp_path):
    settings = sets("space={}", "search={}", "seeds=1", "training.learning_rate=1.0e+30")
    done = lengthwise("run", tiny, "--storage", tmp_path, "--name", "hopeless", *settings)
    assert done.returncode == 1 and "1 failed" in done.stdout, done.stdout + done.stderr
    assert SweepState.load(tmp_path / "hopeless").end_status == "failed"


def test_storage_that_cannot_be_written_names_the_path(lengthwise, tiny, tmp_path):
    (tmp_path / "file").write_text("in the way")
    done = lengthwise("run", tiny, "--storage", tmp_path / "file")
    refused(done, str(tmp_path / "file"))
    full, (soft, hard) = tmp_path / "full" / "tiny", resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # too little for the ledger's first record
    try:
        done = lengthwise("run", tiny, "--storage", full.parent)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert done.returncode == 1 and "File too large" in done.stderr and str(full) in done.stderr
    assert not (full / "events.jsonl").exists() and not (full / "sweep.yaml").exists()


@pytest.mark.parametrize(("words", "storage"), [(("--storage", "out"), ""), ((), "out")])
def test_a_job_refuses_a_storage_in_its_temporary_folder(lengthwise, tiny, tmp_path, monkeypatch, words, storage):
    monkeypatch.setitem(lengthwise.environment, "RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    monkeypatch.setitem(lengthwise.environment, places.STORAGE_VARIABLE, storage)
    lengthwise.refuses("run", tiny, *words, message="storage out ", cwd=tmp_path)
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_characters_that_an_output_lacks_are_replaced(lengthwise, study):
    """Those of lengthwise in this process, those of a user's own code in workers."""
    with (study / "my_tasks.py").open("a", encoding="utf-8") as file:
        file.write("\nprint('length \u2264 8')\n")
    words = ("run", study / "own.yaml", "--storage", study, *sets("resources.scheduler=local", "seeds=1"))
    ran = lengthwise.process(*words, cwd=study, anew=True, PYTHONIOENCODING="ascii")
    assert ran.returncode == 0 and not ran.stderr, ran.stderr
    assert "length ? 8" in ran.stdout and "Finished: 4 configurations" in ran.stdout
    assert lengthwise.process("--help", anew=True, PYTHONIOENCODING="ascii").returncode == 0


@pytest.mark.slow
def test_a_sweep_outlives_its_output(lengthwise, tiny, tmp_path):
    """An output that is full is one sentence and exit code 1; a closed pipe is no fault."""
    words = ("run", tiny, "--storage", tmp_path, "--set", "training.steps=2", "--name")
    program = "import os; os.dup2(os.open('/dev/full', os.O_WRONLY), 1)\n"
    program += "from orchestrator.__main__ import command; command()"
    ran = lengthwise.process(*words, "full", program=program)
    assert ran.returncode == 1 and ran.stderr.count("\n") == 1 and "No space left on device" in ran.stderr
    piped = lengthwise.start(*words, "piped")
    piped.stdout.close()
    assert (piped.stderr.read(), piped.wait()) == ("", 0)
    for name in ("full", "piped"):
        state = SweepState.load(tmp_path / name)
        assert state.end_status == "complete" and (tmp_path / name / "report.html").exists()
