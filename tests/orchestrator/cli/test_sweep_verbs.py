"""Every verb that takes a sweep takes it by its folder or by its bare name, with --storage for where it lies."""

import shutil

import pytest
import typer
from typer.testing import CliRunner

from orchestrator.cli import main as cli
from orchestrator.errors import UserError
from orchestrator.record.ledger.folders import find_default_storage
from orchestrator.record.state.state import SweepState

VERBS = {
    name: command
    for name, command in typer.main.get_command(cli.app).commands.items()
    if any(parameter.name == "folder" for parameter in command.params)
}


@pytest.fixture
def stored(small_sweep, tmp_path):
    """A sweep in a storage folder that is not the usual one."""
    return shutil.copytree(small_sweep.folder, tmp_path / "elsewhere" / small_sweep.folder.name)


def test_all_of_them_have_a_storage():
    assert {"status", "report", "resume", "extend", "confirm", "replay", "delete", "publish", "export"} < VERBS.keys()
    for name, command in VERBS.items():
        options = [option for parameter in command.params for option in parameter.opts]
        assert options.count("--storage") == 1, name


@pytest.mark.parametrize("form", ["{name} --storage={storage}", "--storage={storage} {name}", "{folder}"])
def test_a_sweep_is_found(stored, form):
    before = find_default_storage()
    words = form.format(name=stored.name, storage=stored.parent, folder=stored).split()
    done = CliRunner().invoke(cli.app, ["status", *words])
    assert done.exit_code == 0 and f"in {stored}" in done.output
    compared = CliRunner().invoke(cli.app, ["compare", *words, "0", "1"])
    assert compared.exit_code == 0 and f"First: #0 of {stored.name}" in compared.output
    assert find_default_storage() == before


@pytest.fixture
def beside(stored, tmp_path, monkeypatch):
    """A current folder with a sweep of the same name as the stored one."""
    folder = shutil.copytree(stored, tmp_path / "here" / stored.name)
    monkeypatch.chdir(folder.parent)
    return folder


def test_with_storage_a_name_is_that_of_a_sweep_in_it_and_of_no_folder_here(stored, beside):
    words = [stored.name, "--storage", "../elsewhere"]
    assert "in ../elsewhere" in CliRunner().invoke(cli.app, ["status", *words]).output
    shutil.copytree(stored, stored.with_name("other"))
    compared = CliRunner().invoke(cli.app, ["compare", "other", *words])
    assert compared.exit_code == 0 and f"../elsewhere/{stored.name}" in compared.output, compared.output
    missing = CliRunner().invoke(cli.app, ["status", stored.name, "--storage", "../nowhere"])
    assert f"../nowhere/{stored.name} does not exist" in str(missing.exception)
    assert CliRunner().invoke(cli.app, ["delete", *words, "--yes"]).exit_code == 0
    assert beside.exists() and not stored.exists()


@pytest.mark.parametrize("verb", ["status", "confirm", "delete"])
@pytest.mark.parametrize("named", ["../elsewhere/{}", "./{}", "file:///srv/{}"])
def test_storage_beside_a_path_or_an_address_is_refused(stored, beside, verb, named):
    refused = CliRunner().invoke(cli.app, [verb, named.format(stored.name), "--storage", "../here/none"])
    assert isinstance(refused.exception, UserError)
    message = f"leave out --storage, or give the name {stored.name}"
    assert message in str(refused.exception)


def test_storage_ends_with_a_command_whose_words_are_rejected(stored):
    before = find_default_storage()
    rejected = CliRunner().invoke(
        cli.app, ["publish", stored.name, "--storage", str(stored.parent), "--tracking-uri", "mlruns"]
    )
    assert isinstance(rejected.exception, UserError) and find_default_storage() == before


def test_storage_beside_a_path_into_it_is_taken(stored, beside):
    done = CliRunner().invoke(cli.app, ["status", f"../elsewhere/{stored.name}", "--storage", str(stored.parent)])
    assert done.exit_code == 0 and f"in ../elsewhere/{stored.name}" in done.output


def test_a_verb_needs_a_sweep():
    assert isinstance(CliRunner().invoke(cli.app, ["report"]).exception, UserError)  # the command exits with 2


def test_a_state_is_read_from_a_path_as_text(stored):
    assert SweepState.load(str(stored)).name == stored.name
