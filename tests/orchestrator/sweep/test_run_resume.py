"""`lengthwise run FILE --resume`: the command that began a sweep resumes it, with its settings and those of FILE."""

import pytest

from orchestrator.record.ledger.folders import LEDGER_FILE
from orchestrator.sweep import run_and_resume as module
from search_spaces import load_sweep
from tests.orchestrator.running.ledgers import records

pytestmark = pytest.mark.usefixtures("no_reports")

JUDGED = "objective={metric: margin, average: raw, lengths: [4]}"  # maximized, which only the task knows
OVERRIDES = ("--set", "space.training.batch_size=null", "--set", JUDGED, "--set", "seeds=1")
SHORT = ("--set", "training.steps=20", "--set", "search.configurations=2")


@pytest.fixture
def driven(monkeypatch):
    """The specifications that sweeps are driven with."""
    specs, original = [], module.train_missing

    def drive(session, spec, *arguments, **more):
        specs.append(spec)
        return original(session, spec, *arguments, **more)

    monkeypatch.setattr(module, "train_missing", drive)
    return specs


def test_the_command_that_began_a_sweep_resumes_it_also_after_it_was_extended(lengthwise, tiny, tmp_path):
    words = ("run", tiny, "--storage", tmp_path, *OVERRIDES, *SHORT, "--resume")
    lengthwise.succeeds(*words)
    ledger = (tmp_path / "tiny" / LEDGER_FILE).read_bytes()
    lengthwise.succeeds(*words)
    assert (tmp_path / "tiny" / LEDGER_FILE).read_bytes().startswith(ledger)
    assert not records(tmp_path / "tiny", "resume"), "it was finished"
    lengthwise.refuses(*words, "--set", "training.steps=61", message="training.steps")
    lengthwise.succeeds("extend", tmp_path / "tiny", "--seeds", "2")
    assert "note:" not in lengthwise.succeeds(*words).stdout
    assert load_sweep(tmp_path / "tiny" / "sweep.yaml").seeds == (0, 1)
    lengthwise.refuses(*words, "--set", "seeds=3", message="lengthwise extend")


def test_settings_are_those_of_the_command_and_its_file(lengthwise, tiny, tmp_path, driven):
    words = ("run", tiny, "--storage", tmp_path, *SHORT, "--resume", "--set", "resources.workers=1")
    lengthwise.succeeds(*words)
    text = tiny.read_text()
    tiny.write_text(text.replace("{enabled: false}", "{enabled: false, uri: 'http://host:1'}"))
    tiny.write_text(tiny.read_text() + "budget: {hours: 9}\nnotify: http://127.0.0.1:1/se-cret\n")
    again = lengthwise.succeeds(*words)
    note = "note: budget, tracking, notify: taken from this command and its file, not from sweep.yaml"
    assert note in again.stdout and "se-cret" not in again.stdout
    spec = driven[-1]
    assert (spec.tracking.uri, spec.budget.hours) == ("http://host:1", 9)
    assert (spec.notify, spec.resources.workers) == ("http://127.0.0.1:1/se-cret", 1)
    tiny.write_text(text)
    assert "note:" not in lengthwise.succeeds(*words).stdout
    assert (driven[-1].notify, driven[-1].budget.hours) == (None, None)


def test_resources_that_are_missing_are_named_where_they_are_asked_for(lengthwise, tiny, tmp_path):
    lengthwise.succeeds("run", tiny, "--storage", tmp_path, *SHORT)
    tiny.write_text(tiny.read_text().replace("scheduler: inline,", "scheduler: inline, cpus: 9999,"))
    lengthwise.refuses("run", tiny, "--storage", tmp_path, *SHORT, "--resume", message="tiny.yaml:18: resources.cpus")
