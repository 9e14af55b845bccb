"""`lengthwise init`: what it writes runs, and nothing is replaced without --force."""

import os
import re
import sys
from pathlib import Path

import pytest

from orchestrator import open_sweep
from search_spaces.grammar.load import load_sweep
from search_spaces.grammar.values import find_name_problem
from tests.command_line import CommandLine
from tests.orchestrator.running.ledgers import sets


@pytest.mark.slow
@pytest.mark.parametrize(("options", "short", "members"), [
    ((), ("seeds=1", "tracking.enabled=false", "search.configurations=2"), 2),
    (("--program",), ("seeds=1", "tracking.enabled=false", "space.config.lr={grid: [0.01]}"), 1),  # it imports torch
], ids=["own", "program"])  # fmt: skip
def test_a_new_study_runs_as_it_is(
    options: tuple[str, ...], short: tuple[str, ...], members: int, tmp_path: Path, lengthwise: CommandLine
) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    written = lengthwise.succeeds("init", "first", *options, cwd=tmp_path).stdout.splitlines()
    assert len(written) == len(list((tmp_path / "first").iterdir())) + 1
    words = ("run", tmp_path / "first" / "sweep.yaml", "--storage", tmp_path / "sweeps", *sets(*short))
    done = lengthwise.process(*words, PATH=path)
    assert done.returncode == 0, done.stderr
    sweep = open_sweep(tmp_path / "sweeps" / "first")
    curves = sweep.curves
    assert len(curves[["config_id", "seed"]].drop_duplicates()) == members
    assert curves[curves.metric == "accuracy"].value.max() > 0.9


@pytest.mark.slow
def test_the_new_model_is_worse_beyond_the_trained_lengths_than_without_its_positions(
    tmp_path: Path, lengthwise: CommandLine
) -> None:
    """What the README shows with more configurations: both learn the trained lengths, one reaches the others."""
    lengthwise.succeeds("init", "my_study", cwd=tmp_path)
    model = tmp_path / "my_study" / "my_model.py"
    short = sets("tracking.enabled=false", "search.configurations=1", "seeds=6")
    for name in ("my_study", "changed"):
        words = ("run", tmp_path / "my_study/sweep.yaml", "--storage", tmp_path / "sweeps", "--name", name, *short)
        done = lengthwise.process(*words)  # a process each: the second imports a changed my_model
        assert done.returncode == 0, done.stderr
        model.write_text(re.sub(r" \+ self\.position.*", "", model.read_text()))
    compared = open_sweep(tmp_path / "sweeps/my_study").compare_with(tmp_path / "sweeps/changed")
    (test,) = compared[(compared.lengths == "8-20") & compared.family.str.startswith("all")].itertuples()
    (trained,) = compared[(compared.lengths == "1-5") & compared.family.str.startswith("all")].itertuples()
    assert test.high < -0.05 and abs(trained.difference) < 0.02


@pytest.mark.slow
def test_the_examples_in_a_new_task_hold(tmp_path: Path, lengthwise: CommandLine) -> None:
    lengthwise.succeeds("init", "first", cwd=tmp_path)
    program = "import doctest, sys; sys.path[0] = ''; sys.exit(doctest._test())"  # as `python -m doctest`
    done = lengthwise.process("-v", "my_task.py", program=program, cwd=tmp_path / "first")
    assert done.returncode == 0 and "3 passed" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("name", [
    "heads", "null", "true", "12", "1e3", "0o17", "my-study", "mlruns", "two words", "\u00fcber 'b'", "@w", "{y", "*x",
])  # fmt: skip
def test_a_new_study_is_valid_whatever_its_folder_is_called(name: str, tmp_path: Path, lengthwise: CommandLine) -> None:
    lengthwise.succeeds("init", tmp_path / name)
    spec = load_sweep(tmp_path / name / "sweep.yaml")
    assert spec.name == ("my_study" if find_name_problem(name) else name)
    name_line, study_line, *_ = (tmp_path / name / "sweep.yaml").read_text(encoding="utf-8").splitlines()[3:]
    assert name_line.index("#") == study_line.index("#")


@pytest.mark.parametrize("options", [(), ("--program",)], ids=["own", "program"])
def test_an_existing_file_is_refused_and_nothing_is_written(
    options: tuple[str, ...], tmp_path: Path, lengthwise: CommandLine
) -> None:
    (tmp_path / "sweep.yaml").write_text("mine\n")
    refused = lengthwise("init", tmp_path, *options)
    assert refused.returncode == 2 and str(tmp_path / "sweep.yaml") in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.yaml"]
    assert (tmp_path / "sweep.yaml").read_text() == "mine\n"


def test_force_replaces_the_files_it_writes_and_no_others(tmp_path: Path, lengthwise: CommandLine) -> None:
    folder = tmp_path / "heads"
    lengthwise.succeeds("init", folder)
    written = {path.name: path.read_bytes() for path in folder.iterdir()}
    (folder / "my_task.py").write_text("changed\n")
    (folder / "my_model.py").unlink()
    (folder / "train.py").write_text("mine\n")
    printed = lengthwise.succeeds("init", folder, "--force").stdout.split()
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {**written, "train.py": b"mine\n"}
    words = {name: printed[printed.index(str(folder / name)) - 1] for name in written}
    assert words == {"my_model.py": "wrote", "my_task.py": "replaced", "sweep.yaml": "replaced"}
