"""A sweep of the user's own task, in a folder that is no clone of this repository: run, reported, resumed, changed."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from orchestrator.code.code_record import record_code
from orchestrator.code.trust import trust_sweep
from orchestrator.code.user_code import import_spec_modules
from orchestrator.record.state.state import SweepState
from orchestrator.results.comparing.named_comparison import compare_named
from orchestrator.results.make_summary import summarize
from orchestrator.results.read_confirmations import read_confirmations
from search_spaces import load_sweep
from tests.orchestrator.running.ledgers import begin_ledger, records


@pytest.fixture
def anew(lengthwise, own_code_forgotten) -> Callable[..., Any]:
    """Run a verb where none of the user's code has been imported yet."""

    def run(*words: Any, cwd: Path) -> Any:
        own_code_forgotten()
        return lengthwise(*words, cwd=cwd)

    return run


@pytest.mark.slow
def test_a_task_of_ones_own_is_run_and_reported_long_after(anew, study: Path, tmp_path: Path) -> None:
    storage = tmp_path / "sweeps"
    done = anew("run", study / "own.yaml", "--storage", storage, cwd=study)
    assert done.returncode == 0, done.stdout + done.stderr
    folder = storage / "tiny"
    (code,) = records(folder, "sweep")[0].fields["code"]["modules"]
    assert (code["module"], code["installed"], sorted(code["files"])) == (
        "my_tasks",
        False,
        ["my_numbers.py", "my_tasks.py"],
    )
    assert {fields["task_module"] for fields in SweepState.load(folder).measurements_by_digest.values()} == {"my_tasks"}
    copy = folder / "code" / code["sha256"][:12]
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == {
        name: (study / name).read_bytes() for name in ("my_tasks.py", "my_numbers.py")
    }
    (study / "my_numbers.py").write_text("SMALLEST = 2 * 3\n")
    refused = anew("run", study / "own.yaml", "--storage", storage, cwd=study)
    assert refused.returncode == 2 and "my_tasks changed after" in refused.stderr and "--name" in refused.stderr
    shutil.rmtree(study)
    again = anew("report", folder, cwd=tmp_path)
    assert again.returncode == 0 and "my_tasks" not in again.stderr, again.stdout + again.stderr
    assert anew("resume", folder, cwd=tmp_path).returncode == 0  # nothing is left to train: the copy will do


def begun(study: Path, folder: Path) -> None:
    """A sweep whose driver was killed before it drew anything."""
    spec = load_sweep(study / "own.yaml", ["search.configurations=1"])
    sources = import_spec_modules(spec)
    code = record_code([], sources)
    with begin_ledger(folder, spec, code=code.fields):
        code.write_copies(folder)
    trust_sweep(SweepState.load(folder))


def test_changed_code_is_refused_at_resume_and_recorded_when_accepted(anew, study: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tiny"
    begun(study, folder)
    (study / "my_numbers.py").write_text("SMALLEST = 5 + 1\n")
    before = (folder / "events.jsonl").read_bytes()
    refused = anew("resume", folder, cwd=tmp_path)
    assert refused.returncode == 2 and "Traceback" not in refused.stderr
    assert (
        "my_tasks" in refused.stderr and "my_numbers.py" in refused.stderr and "--accept-code-change" in refused.stderr
    )
    assert (folder / "events.jsonl").read_bytes() == before
    (study / "my_tasks.py").rename(study / "elsewhere.py")
    missing = anew("resume", folder, cwd=tmp_path)
    assert missing.returncode == 2 and "module not found" in missing.stderr
    (study / "elsewhere.py").rename(study / "my_tasks.py")
    accepted = anew("resume", folder, "--accept-code-change", cwd=tmp_path)
    assert accepted.returncode == 0, accepted.stdout + accepted.stderr
    assert "has changed since the last training (my_numbers.py); training continues" in accepted.stdout
    state = SweepState.load(folder)
    assert state.end_status == "complete" and state.modules[0]["sha256"] != records_code(folder)["sha256"]


@pytest.mark.slow
def test_two_sweeps_of_one_task_with_changed_code_are_not_said_to_share_anything(
    lengthwise, anew, study: Path, tmp_path: Path
) -> None:
    run = ("run", study / "own.yaml", "--set", "search.configurations=1", "--set", "training.steps=20")
    first, again, changed = tmp_path / "first", tmp_path / "again", tmp_path / "changed" / "first"
    for folder in (first, again):
        assert lengthwise(*run, "--name", folder.name, "--storage", tmp_path, cwd=study).returncode == 0
    confirmed = lengthwise("confirm", first, "--top", "1", "--seeds", "1")
    assert confirmed.returncode == 0 and "other code" not in confirmed.stdout
    with (study / "my_numbers.py").open("a") as file:
        file.write("LARGEST = 9\n")
    done = anew(*run, "--name", "first", "--storage", changed.parent, cwd=study)
    assert done.returncode == 0, done.stdout + done.stderr
    assert SweepState.load(first).configurations.keys() == SweepState.load(changed).configurations.keys()

    same = compare_named(first, "0", f"{again}/0").comparisons[0].shared
    assert same.sentence == "same training data, test inputs and initial weights" and not same.differing
    comparison = compare_named(first, "0", f"{changed}/0").comparisons[0]
    assert (
        comparison.shared.common == ()
        and not comparison.outcome.paired
        and list(comparison.shared.differing) == ["module my_tasks"]
    )
    shown = lengthwise("compare", first, "0", f"{changed}/0").stdout
    assert "They differ in: module my_tasks" in shown and "training data may differ (module my_tasks)" in shown

    shutil.copytree(tmp_path / "first-confirm", changed.parent / "first-confirm")  # of the same name and specification
    (confirmation,) = read_confirmations(summarize(SweepState.load(changed)))
    assert (
        confirmation.changed_code == ("module my_tasks",) and "with other code than the search" in confirmation.sentence
    )


@pytest.mark.slow
def test_the_copy_serves_where_the_module_is_gone_and_that_is_accepted(
    lengthwise, study: Path, tmp_path: Path, own_code_forgotten
) -> None:
    folder = tmp_path / "tiny"
    begun(study, folder)
    shutil.rmtree(study)
    own_code_forgotten()
    accepted = lengthwise.succeeds(
        "resume", folder, "--accept-code-change", "--set", "resources.scheduler=local", cwd=tmp_path
    )
    assert "is missing in" in accepted.stdout and SweepState.load(folder).end_status == "complete"


def test_a_wrong_setting_of_ones_own_task_is_named_as_that_of_a_shipped_one(
    lengthwise, study: Path, own_code_forgotten: None
) -> None:
    wrong = lengthwise(
        "validate", study / "own.yaml", "--set", "task.vocabulary=5", "--set", "task.vocabluary=9", cwd=study
    )
    assert wrong.returncode == 2 and "did you mean vocabulary?" in wrong.stderr, wrong.stderr
    listed = lengthwise("list", "task", "--import", "my_tasks", cwd=study)
    assert "task my_complement: Set complement with a vocabulary of its own." in listed.stdout, listed.stderr


def records_code(folder: Path) -> dict:
    from orchestrator.record.ledger.records import read_first_record

    return read_first_record(folder).fields["code"]["modules"][0]


FAULTY = '''
    def score_rows(self, logits_MBTV, batch, lengths):
        """As it should be, but for a fault that only shows when all samples are there."""
        found = super().score_rows(logits_MBTV, batch, lengths)
        return found if batch.tokens.shape[1] < 10 else self.stumble(found)

    def stumble(self, found):
        """The fault."""
        raise ValueError("the seventh word is missing")
'''


@pytest.mark.slow
def test_an_exception_of_ones_own_code_is_shown_at_once_and_with_its_traceback(
    lengthwise, study: Path, tmp_path: Path, own_code_forgotten: None
) -> None:
    with (study / "my_tasks.py").open("a") as file:
        file.write(FAULTY)
    short = ("--set", "search.configurations=1", "--set", "resources.scheduler=local")
    done = lengthwise("run", study / "own.yaml", "--storage", tmp_path, *short)
    assert done.returncode == 1, done.stdout + done.stderr
    folder = tmp_path / "tiny"
    (attempt,) = records(folder, "attempt")
    message = "ValueError: the seventh word is missing ("
    assert attempt.fields["error"].startswith(message) and "my_tasks.py:" in attempt.fields["error"]
    trace = attempt.fields["trace"]
    assert (
        trace.startswith("Traceback (most recent call last):\n") and "in stumble" in trace and "in score_rows" in trace
    )
    assert "orchestrator/running" not in trace.replace("orchestrator/running/pack/train_pack.py", "")
    shown = lengthwise("status", folder, "--trace")
    assert shown.returncode == 0 and "in stumble" in shown.stdout and message in shown.stdout
    status = lengthwise("status", folder).stdout
    assert f"lengthwise status {folder} --trace" in status and "in stumble" not in done.stdout + status
