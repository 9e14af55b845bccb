"""Where the files of a program are looked for: beside the sweep file, or where the sweep has kept them."""

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from orchestrator import run
from orchestrator.code.user_code import UserCodeError
from orchestrator.errors import SweepExists
from orchestrator.program import member_run
from orchestrator.program.command import fill_words
from orchestrator.program.member_folder import read_attempt_number
from orchestrator.record.files.recorded_modules import find_program
from orchestrator.record.state.state import SweepState
from orchestrator.results.make_summary import summarize
from orchestrator.sweep.derived_sweep import make_listed_spec
from orchestrator.upkeep.deletion import plan_deletion
from tests.orchestrator.program.studies import Study, assert_equal_curves, script


@pytest.mark.parametrize("change", ["nothing", "edited", "gone"])
def test_a_confirmation_runs_the_program_that_the_sweep_has_run(
    change: str, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study.write()
    state = study.run()
    monkeypatch.chdir(tmp_path)  # where there is no train.py
    original = study.folder / "train.py"
    if change == "edited":
        original.write_text(script() + "\n")
    elif change == "gone":
        original.unlink()
    program = find_program(state)
    assert program is not None and (program / "train.py").read_text() == script()
    assert (program == study.folder.resolve()) == (change == "nothing")
    rows = summarize(state).rows
    spec = make_listed_spec(state, rows, {"name": "again", "seeds": [7]}, (), "confirmed")
    assert spec.folder == program


def test_the_best_configuration_is_written_without_what_nobody_gave(study: Study) -> None:
    study.write()
    state: SweepState = study.run()
    (configuration,) = state.configurations.values()
    assert configuration.resolved["program"] == {"command": ["python", "-S", "train.py", "${args}"]}


def test_a_script_that_is_the_command_itself_stays_executable(study: Study) -> None:
    study.write(program={"command": ["./train.sh", "${seed}"]})
    line = '{"step": %d, "curves": {"acc": {"5": 1, "10": 1, "20": 1}}}'
    script_file = study.folder / "train.sh"
    reports = "\n".join(f"echo '{line % step}' >> $LENGTHWISE_REPORTS" for step in (10, 20, 30))
    script_file.write_text(f"#!/bin/bash\n{reports}\n")
    script_file.chmod(0o755)
    (pack,) = study.run().packs.values()
    assert pack.status == "complete" and list(pack.evaluations) == [10, 20, 30]


@pytest.mark.parametrize("change", ["nothing", "edited"])
def test_the_recorded_sweep_file_finds_the_program(
    change: str, study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study.write()
    state = study.run()
    if change == "edited":
        study.write("raise SystemExit(1)")
    monkeypatch.chdir(tmp_path)
    again = run(
        state.folder / "sweep.yaml", storage=tmp_path / "again", name="again", console=Console(file=io.StringIO())
    )
    assert again.status == "complete"
    assert_equal_curves(SweepState.load(again.folder), state)


def test_a_change_of_code_names_the_option_of_every_command_that_accepts_it(study: Study) -> None:
    study.write(script(end="sys.exit(3)", step="step == 5 and sys.exit(3)"))
    state = study.run()
    assert state.failed_packs
    study.write()
    with pytest.raises(UserCodeError) as refused:
        study.resume(state, retry_failed=True)
    assert all(option in str(refused.value) for option in ("--accept-code-change", "--retry-failed"))
    assert "lengthwise resume" not in str(refused.value)
    with pytest.raises(SweepExists) as exists:
        study.run()
    assert "--retry-failed" in str(exists.value)


def test_a_judged_average_that_nobody_reports_stops_the_sweep(study: Study) -> None:
    study.write(evaluation__averages=["raw", "ema"], objective__average="ema", seeds=5)
    state = study.run()
    ended = [pack for pack in state.packs.values() if pack.has_ended]
    assert (state.end_status, len(ended)) == ("interrupted", 3)
    for pack in ended:
        assert not pack.evaluations and all(word in str(pack.error) for word in ("jsonl:2", "step 10", "average ema"))


def test_three_that_end_one_step_early_stop_the_sweep(study: Study) -> None:
    study.write(script(step="step == 29 and sys.exit(0)"), seeds=6)
    state = study.run()
    ended = [pack for pack in state.packs.values() if pack.has_ended]
    assert len(ended) == 3 and all(list(pack.evaluations) == [10, 20] for pack in ended)
    assert "step 30 was due" in study.output and "--accept-code-change" in study.output


@pytest.mark.parametrize(("name", "number"), [("attempt-2.log", 2), ("attempt-best.png", 0), ("attempt-3-old.log", 0)])
def test_files_of_a_program_are_no_attempts(name: str, number: int) -> None:
    assert read_attempt_number(Path(name)) == number


FIRST_ATTEMPT_KEEPS_FILES = """
import os, pathlib
folder = pathlib.Path(os.environ["LENGTHWISE_FOLDER"])
names = ("probe", "config.json", "declared.json")
if not (folder / "best" / "model.pt").exists():
    (folder / "best").mkdir()
    for name in (*names, "best/model.pt"):
        (folder / name).write_text("mine")
    raise OSError("a file of another member")
if any((folder / name).read_text() != "mine" for name in names):
    sys.exit(3)
"""


def test_files_that_a_program_keeps_in_its_folder_stay_until_the_sweep_is_deleted(study: Study) -> None:
    study.write("import sys" + FIRST_ATTEMPT_KEEPS_FILES + script(), resources__retries=1)
    state = study.run()
    (pack,) = state.packs.values()
    assert (pack.status, len(pack.attempts)) == ("complete", 1)
    (folder,) = (state.folder / "members").iterdir()
    assert [(folder / name).read_text() for name in ("probe", "config.json", "declared.json")] == ["mine"] * 3
    kept = {f"members/{folder.name}/{name}" for name in ("best/model.pt", "probe")}
    assert set(plan_deletion(state.folder).program_files) == kept


def test_a_script_that_is_named_by_its_absolute_path_runs_from_the_copy(study: Study) -> None:
    """The first member breaks the script of the user."""
    study.write(script(end="open(os.environ['SCRIPT'], 'w').write('raise SystemExit(1)')"), seeds=2)
    file = study.folder / "prog.yaml"
    file.write_text(file.read_text().replace("train.py", str(study.folder.resolve() / "train.py")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SCRIPT", str(study.folder / "train.py"))
        state = study.run()
    assert (state.end_status, len(state.failed_packs)) == ("complete", 0), study.output


def test_a_shell_runs_a_word_that_is_no_file(study: Study) -> None:
    study.write(program={"command": ["bash", "-c", "cd . && python -S ./own.py"]})
    (study.folder / "own.py").write_text(script().replace('given["seed"]', "run.seed").replace('given["lr"]', "1"))
    state = study.run()
    assert (state.end_status, len(state.failed_packs)) == ("complete", 0), study.output


def test_an_argument_may_be_longer_than_the_name_of_a_file(study: Study) -> None:
    study.write(config={"prompt": "digit " * 100})
    state = study.run()
    assert (state.end_status, len(state.failed_packs)) == ("complete", 0), study.output


@pytest.mark.parametrize(
    ("missing", "named"),
    [
        ("models.py", "models.py"),
        ("models/gru.py", "models"),
        ("src/models/gru.py", "src/models"),
        ("models/notes", ""),
    ],
)
def test_a_module_that_is_imported_by_a_computed_name_is_named(missing: str, named: str, study: Study) -> None:
    study.write(
        "import importlib; importlib.import_module('mod' + 'els')", program={"command": ["python", "-S", "train.py"]}
    )
    (study.folder / missing).parent.mkdir(parents=True, exist_ok=True)
    (study.folder / missing).write_text("")
    (error,) = {pack.error for pack in study.run().packs.values()}
    _, _, remedy = str(error).partition("No module named 'models'")
    assert (named in remedy and "program.files" in remedy) if named else not remedy


def test_a_file_beside_a_script_that_was_not_copied_is_named(study: Study) -> None:
    study.write(
        "from pathlib import Path; (Path(__file__).parent / 'conf' / 'base.yaml').read_text()",
        program={"command": ["python", "-S", "train.py"]},
    )
    (study.folder / "conf").mkdir()
    (study.folder / "conf" / "base.yaml").write_text("")
    (error,) = {pack.error for pack in study.run().packs.values()}
    assert "; conf/base.yaml " in str(error) and "program.files" in str(error)


def test_an_error_before_the_start_of_a_program_leaves_its_member_unlocked(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = [OSError("the file system is away")]

    def fail_once(*arguments: Any) -> list[str]:
        if errors:
            raise errors.pop()
        return fill_words(*arguments)

    study.write()
    monkeypatch.setattr(member_run, "fill_words", fail_once)
    state = study.run()
    assert (state.end_status, [len(pack.attempts) for pack in state.packs.values()]) == ("complete", [1]), study.output
