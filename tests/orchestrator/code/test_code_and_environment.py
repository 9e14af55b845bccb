"""The code and the environment that packs were trained with: reported, compared, and refused if changed."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from orchestrator.code import code_record
from orchestrator.code.code_record import compute_mapping_digest
from orchestrator.engine import environment
from orchestrator.engine.environment import ENGINE
from orchestrator.record.state.state import SweepState
from orchestrator.results.pack_environments import PackEnvironments
from orchestrator.running.pack.reported_environments import ReportedEnvironments
from tests.orchestrator.running.ledgers import cut_ledger, records, sets
from tests.orchestrator.tiny_sweeps import SHORT

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the code of lengthwise, taken for the one that this process runs from."""
    root = tmp_path.resolve() / "checkout"
    for package in ("trainers", "search_spaces", "orchestrator"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(REPOSITORY / package, root / package, ignore=ignored)
    (root / "README.md").write_text("read me\n")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
        who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", str(root), *who, *words], check=True)
    monkeypatch.setattr(code_record, "LENGTHWISE_FOLDER", root)
    return root


@pytest.fixture
def interrupted(
    lengthwise, tiny: Path, tmp_path: Path, in_packs: Callable[..., None], checkout: Path, monkeypatch
) -> Path:
    """A sweep, begun from the checkout, of which one pack has reported once."""

    def stop(pack_id: str, step: int) -> None:
        raise KeyboardInterrupt

    in_packs(stop)
    stopped = lengthwise("run", tiny, "--storage", tmp_path / "sweeps", *sets(*SHORT))
    assert stopped.returncode == 130, stopped.stderr
    monkeypatch.undo()  # packs are trained to their end again
    monkeypatch.setattr(code_record, "LENGTHWISE_FOLDER", checkout)
    return tmp_path / "sweeps" / "tiny"


def edit(path: Path) -> None:
    path.write_text(f"{path.read_text()}# edited\n")


@pytest.mark.slow
def test_resume_with_other_code_is_refused_until_it_is_accepted_and_both_are_on_record(
    checkout, interrupted, lengthwise
) -> None:
    before = {path: path.read_bytes() for path in interrupted.rglob("*") if path.is_file()}
    (checkout / "README.md").write_text("read this\n")
    edit(checkout / "trainers" / "tasks" / "set_complement.py")
    edit(checkout / "orchestrator" / "figures" / "bands.py")
    refused = lengthwise("resume", interrupted)
    assert refused.returncode == 2 and "Traceback" not in refused.stderr
    assert f"{checkout}/trainers has changed" in refused.stderr
    assert "--accept-code-change" in refused.stderr and "figures" not in refused.stderr
    assert {path: path.read_bytes() for path in interrupted.rglob("*") if path.is_file()} == before

    accepted = lengthwise.succeeds("resume", interrupted, "--accept-code-change")
    state = SweepState.load(interrupted)
    first, second = state.codes
    then, now = (next(tree for tree in code["folders"] if tree["root"] == str(checkout)) for code in (first, second))
    assert then["commit"] == now["commit"] and (then["dirty"], now["dirty"]) == (False, True)
    assert b"+read this" in (interrupted / now["diff"]["file"]).read_bytes()
    under = [[name for name, _ in pack.ran_under] for pack in state.packs.values()]
    assert under == [[first["name"], second["name"]], [second["name"]]]
    environments = PackEnvironments.from_state(state)
    assert environments.changed_code == ["trainers"] and environments.differing == []
    sentence = "acks were trained with different code (trainers)"  # at the beginning of a sentence or of a line
    page = (interrupted / "report.html").read_text()
    assert sentence in page and sentence in accepted.stdout and then["commit"][:12] in page
    shown = lengthwise("status", interrupted).stdout
    assert sentence in shown and f"commit {then['commit'][:12]}, with uncommitted changes" in shown


def test_resume_with_the_same_code_or_with_other_documentation_needs_no_word(checkout, interrupted, lengthwise) -> None:
    edit(checkout / "orchestrator" / "report" / "sentences.py")
    assert lengthwise("resume", interrupted).returncode == 0
    assert not PackEnvironments.from_state(SweepState.load(interrupted)).sentences


def test_a_sweep_without_a_record_of_its_code_goes_on_and_has_one_from_there_on(stage, lengthwise) -> None:
    begun = stage("old", "search.configurations=1", "training.steps=20")
    lengthwise.succeeds("resume", begun.folder)
    assert not SweepState.load(begun.folder).modules and len(SweepState.load(begun.folder).codes) == 1


def test_a_sweep_resumed_twice_with_the_same_code_has_one_state_of_it(stage, lengthwise) -> None:
    begun = stage("twice", "search.configurations=1", "training.steps=20")
    for _ in range(2):
        state = SweepState.load(begun.folder)
        if state.end_status:
            cut_ledger(begun.folder, 3)  # as if it had been killed
        assert lengthwise("resume", begun.folder).returncode == 0
    first, second = (record.fields["code"] for record in records(begun.folder, "resume"))
    assert first == second and SweepState.load(begun.folder).codes == [first]


@pytest.mark.slow
def test_every_evaluation_names_its_environment_and_the_ledger_has_it_once(lengthwise, tiny, tmp_path) -> None:
    done = lengthwise.process("run", tiny, "--storage", tmp_path, "--set", "resources.scheduler=local", OMP_DYNAMIC="0")
    assert done.returncode == 0, done.stderr
    evaluations = records(tmp_path / "tiny", "evaluation")
    in_full = [record.fields["environment_in_full"] for record in evaluations if "environment_in_full" in record.fields]
    (name,) = {record.fields["environment"] for record in evaluations}
    assert len(evaluations) > 2 and in_full == [{name: in_full[0][name]}]
    table = in_full[0][name]
    assert {"python", "lengthwise", "torch", "numpy", "ray", "optuna", "processor", "cpu capability"} <= set(table)
    assert (table["device"], table["threads"], table["OMP_DYNAMIC"]) == ("cpu", 1, "0")
    assert table["MKL_CBWR"] and "too late" not in table["MKL_CBWR"]
    assert table["float32 products"] == "highest" and compute_mapping_digest(table) == name
    (first,) = records(tmp_path / "tiny", "sweep")
    assert first.fields["code"]["root"] == str(REPOSITORY)


def test_packs_of_different_environments_are_told_apart(stage, lengthwise, monkeypatch) -> None:
    begun = stage("two", "resources.pack=4")
    begun.play(during=lambda pack_id, step: monkeypatch.setenv("OMP_DYNAMIC", "FALSE"))
    state = SweepState.load(begun.folder)
    assert {len(pack.ran_under) for pack in state.packs.values()} == {1} and len(state.environments) == 2
    environments = PackEnvironments.from_state(state)
    assert environments.differing == ["OMP_DYNAMIC"] and "which differ in OMP_DYNAMIC" in environments.sentences[0]
    shown = lengthwise("report", begun.folder)
    assert shown.returncode == 0 and environments.sentences[0] in shown.stdout
    assert "OMP_DYNAMIC (differs)" in (begun.folder / "report.html").read_text()


def test_a_worker_with_different_code_is_warned_about_once() -> None:
    known, same = ReportedEnvironments(), environment.read_environment([], gpus=0)
    other = {**same, ENGINE: "0" * 16}
    assert known.store_and_compare("a", same) is None
    assert (
        known.store_and_compare("b", other)
        == "worker and driver run different code of lengthwise; see Provenance in report.html"
    )
    assert known.store_and_compare("c", other) is None
    assert known.make_fields("a", {}) != known.make_fields("b", {}) and known.make_fields("unheard of", {}) == {}
