"""Every verb that takes a sweep takes it by its folder, its bare name, or --name, with --storage for where it lies."""

import os
import shutil

import pytest
import typer
from typer.testing import CliRunner

from orchestrator.cli import main as cli
from orchestrator.record.ledger.folders import STORAGE_VARIABLE
from orchestrator.record.state.state import SweepState

VERBS = {
    name: command
    for name, command in typer.main.get_command(cli.app).commands.items()
    if any(one.name == "folder" for one in command.params)
}


@pytest.fixture
def stored(small_sweep, tmp_path):
    """A sweep in a storage folder that is not the usual one."""
    return shutil.copytree(small_sweep.folder, tmp_path / "elsewhere" / small_sweep.folder.name)


def test_all_of_them_have_both_options():
    assert {"status", "report", "resume", "extend", "confirm", "replay", "delete", "publish", "export"} < VERBS.keys()
    for name, command in VERBS.items():
        options = [option for one in command.params for option in one.opts]
        assert options.count("--storage") == options.count("--name") == 1, name


@pytest.mark.parametrize("form", ["--name {name} --storage {storage}", "{name} --storage={storage}", "{folder}"])
def test_a_sweep_is_found(stored, form):
    before = os.environ.get(STORAGE_VARIABLE)
    words = form.format(name=stored.name, storage=stored.parent, folder=stored).split()
    done = CliRunner().invoke(cli.app, ["status", *words])
    assert done.exit_code == 0 and f"in {stored}" in done.output
    compared = CliRunner().invoke(cli.app, ["compare", *words, "0", "1"])
    assert compared.exit_code == 0 and f"First: #0 of {stored.name}" in compared.output
    assert os.environ.get(STORAGE_VARIABLE) == before


@pytest.mark.parametrize("words", [["--name"], ["one", "--name", "another"], []])
def test_what_cannot_be_meant_is_refused(words):
    assert CliRunner().invoke(cli.app, ["status", *words]).exit_code == 2


def test_a_state_is_read_from_a_path_as_text(stored):
    assert SweepState.load(str(stored)).name == stored.name
