"""Addresses of MLflow and of the storage, as options and in sweep files; `ui`."""

from pathlib import Path

import pytest

from orchestrator.cli import options
from orchestrator.errors import UserError
from orchestrator.record.ledger import folders as places
from orchestrator.record.state.state import SweepState
from orchestrator.text.redaction import URI_VARIABLE
from orchestrator.tracking.address import read_uri_variable
from search_spaces import load_sweep
from tests.command_line import refused


@pytest.mark.parametrize(
    "uri", ["sqlite:////a #b.db", "sqlite:////it's: a", "sqlite:///[a]", "http://h:5000", "sqlite:///#"]
)
def test_a_tracking_address_is_taken_as_it_is(tiny, uri):
    assert load_sweep(tiny, options.add_uris(["seeds=1"], uri)).tracking.uri == uri


def test_a_tracking_address_does_not_depend_on_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert options.parse_store("sqlite:///runs/x.db") == f"sqlite:///{tmp_path}/runs/x.db"
    assert options.parse_store("sqlite:////x.db") == "sqlite:////x.db"
    assert options.parse_store("http://h:5000") == "http://h:5000"


def test_a_relative_file_of_mlflow_is_recorded_with_the_folder_in_which_run_was_typed(lengthwise, tiny, tmp_path):
    where, sets = tmp_path / "typed", ["--set", "search.configurations=1", "--set", "seeds=1"]
    where.mkdir()
    tiny.write_text(tiny.read_text().replace("{enabled: false}", "{enabled: false, uri: sqlite:///my.db}"))
    lengthwise.succeeds("run", tiny, "--storage", tmp_path, *sets, cwd=where)
    state = SweepState.load(tmp_path / "tiny")
    assert state.spec["tracking"]["uri"] == f"sqlite:///{where}/my.db"
    assert load_sweep(state.folder / "sweep.yaml").tracking.uri == f"sqlite:///{where}/my.db"
    assert state.spec_hash == load_sweep(tiny, sets[1::2]).spec_hash
    lengthwise.refuses("run", tiny, "--storage", tmp_path, *sets, message=str(tmp_path / "tiny"))
    again = lengthwise.succeeds("run", tiny, "--storage", tmp_path, *sets, "--resume", cwd=where)
    assert "note:" not in again.stdout, "the same file"


def test_ui_without_sweeps_creates_nothing(lengthwise, tmp_path):
    new = tmp_path / "new"
    refused(lengthwise("ui", "--storage", new), str(new), "--storage")
    high = lengthwise("ui", "--port", "99999")
    assert high.returncode == 2 and "--port" in high.stderr and "65535" in high.stderr
    assert not list(tmp_path.iterdir())
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "events.jsonl").touch()
    refused(lengthwise("ui", "--storage", tmp_path / "mine"), f"--storage {tmp_path}")


def test_default_storage(monkeypatch):
    for variable in (places.STORAGE_VARIABLE, "RAY_JOB_CONFIG_JSON_ENV_VAR"):
        monkeypatch.delenv(variable, raising=False)
    assert places.find_default_storage() == Path("sweeps")
    monkeypatch.setenv("RAY_JOB_CONFIG_JSON_ENV_VAR", "{}")
    assert places.find_default_storage() == Path.home() / "lengthwise-sweeps"
    monkeypatch.setenv(places.STORAGE_VARIABLE, "/data/sweeps")
    assert places.find_default_storage() == Path("/data/sweeps")


@pytest.mark.parametrize("verb", ["report", "compare", "export", "confirm", "resume", "extend", "delete", "evaluate"])
def test_a_verb_without_its_sweep_names_those_of_the_storage(verb, lengthwise, tmp_path):
    refused(lengthwise(verb, cwd=tmp_path), f"lengthwise {verb} DIR", "sweeps/")
    for name in ("b", "a"):
        (tmp_path / "sweeps" / name).mkdir(parents=True)
        (tmp_path / "sweeps" / name / "events.jsonl").touch()
    refused(lengthwise(verb, cwd=tmp_path), f"lengthwise {verb} DIR", "sweeps/: a, b")
    refused(lengthwise(verb, "--storage", tmp_path / "sweeps"), f"{tmp_path / 'sweeps'}/: a, b")


@pytest.mark.parametrize("verb", ["run", "plan", "validate", "data"])
def test_a_verb_without_its_file_names_an_example(verb, lengthwise):
    refused(lengthwise(verb), f"lengthwise {verb} FILE", "quickstart")


def test_a_study_that_was_not_run_yet_names_its_file(lengthwise, tmp_path):
    lengthwise.succeeds("init", "mine", cwd=tmp_path)
    refused(lengthwise("report", "mine", cwd=tmp_path), "events.jsonl", "lengthwise run mine/sweep.yaml")


@pytest.mark.parametrize("address", ["http://[::1:5000", "http://ada:pw@[::1:5000", "https://host:99999"])
def test_an_address_with_a_broken_host_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="--tracking-uri") as refused:
        options.parse_store(address)
    monkeypatch.setenv(URI_VARIABLE, address)
    with pytest.raises(UserError, match=f"{URI_VARIABLE}=") as refused_variable:
        read_uri_variable()
    assert refused.value.exit_code == refused_variable.value.exit_code == 2
    assert "pw" not in str(refused_variable.value)
