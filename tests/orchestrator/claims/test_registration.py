"""Real tiny sweeps: claims are in the ledger before the first evaluation, and --run runs and resumes."""

import io
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from orchestrator.claims import judge_file
from orchestrator.claims.archive import locate_archive, read_archive
from orchestrator.claims.registration import describe_registration, list_changes, read_deciding_values
from orchestrator.code.code_record import compute_mapping_digest
from orchestrator.errors import SpecChanged, UserError
from orchestrator.record.state.state import SweepState
from orchestrator.sweep.extend import extend_sweep
from orchestrator.sweep.run_and_resume import resume_sweep
from search_spaces import SweepFileError, load_claims, load_sweep
from search_spaces.grammar.claims import Claim
from tests.command_line import STARTUP, CommandLine
from tests.orchestrator.claims.conftest import claim, write_claims

TINY = """\
name: tiny
study: tests
claims: claims.yaml
task: {name: set_complement, vocabulary: 6, train_length: 3, target: sampled}
model: {name: attention_only, width: 8, value_width: 8}
training: {steps: 20, batch_size: 8, learning_rate: 0.003, compile: false, averages: {raw: {}}}
space: {model.norm: {grid: [none, post]}}
search: {sampler: grid}
seeds: 2
evaluation: {every: 10, samples: 10}
objective: {metric: total_variation, average: raw, lengths: [4], direction: minimize}
resources: {scheduler: inline, checkpoint_seconds: null}
tracking: {enabled: false}
"""
pytestmark = pytest.mark.usefixtures("blank_figures", "no_reports")
ARMS = {"post": {"where": {"model.norm": "post"}}, "none": {"where": {"model.norm": "none"}}}
ASKED = claim(sweep="tiny", arms=ARMS, compare=["post", "none"])


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    (tmp_path / "tiny.yaml").write_text(TINY)
    write_claims(tmp_path / "claims.yaml", [ASKED, claim(id="elsewhere")])
    return tmp_path / "tiny.yaml"


def page_of(file: Path, storage: Path) -> str:
    lines = list(judge_file.judge_claims(file, storage, storage / "page.md"))
    assert lines[-1].startswith(f"wrote {storage / 'page.md'}")
    return (storage / "page.md").read_text(encoding="utf-8")


def test_claims_are_registered_before_the_first_evaluation(tiny: Path, run_inline: Callable[..., Path]) -> None:
    folder, file = run_inline(tiny), tiny.with_name("claims.yaml")
    records = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert list(records[0]["data"]["claims"]) == ["pre_norm"], "of the claims those about this sweep"
    assert records[0]["kind"] == "sweep" and any(record["kind"] == "evaluation" for record in records[1:])
    assert (folder / "claims.yaml").read_bytes() == file.read_bytes()
    assert "registered before the sweep ran." in page_of(file, folder.parent)

    changed = {**ASKED, "note": "Reads better.", "figure": "seeds", "asked_again": "elsewhere", "same_as": "third"}
    write_claims(file, [changed, claim(id="elsewhere"), claim(id="third")])
    assert "It was registered before the sweep ran." in page_of(file, folder.parent), "words and figures decide nothing"
    write_claims(file, [{**ASKED, "expect": "larger"}])
    changed = "changed since it was registered before the sweep ran"
    assert f"{changed}, when `expect` was “smaller”." in page_of(file, folder.parent)
    write_claims(file, [{**ASKED, "id": "another"}])
    assert "without being registered" in page_of(file, folder.parent)

    with_bound = yaml.safe_load(write_claims(file, [ASKED]).read_text())
    with_bound["no_effect"] = [{"metric": "total_variation", "within": 0.1, "because": "It is small."}]
    file.write_text(yaml.safe_dump(with_bound))
    assert "without its bound of no effect" in page_of(file, folder.parent)

    write_claims(file, [{**ASKED, "says": "Post-norm helps.", "learned": {"metric": "total_variation", "most": 0.9}}])
    before = f"{changed}, when `says` was “{ASKED['says'].rstrip('.')}” and `learned` was null."
    list(judge_file.judge_claims(file, folder.parent, keep=True))
    for storage in (folder.parent, folder.parent / "nothing here"):  # its folder, and the archive
        storage.mkdir(exist_ok=True)
        assert before in page_of(file, storage)
    copy = folder / "claims.yaml"
    copy.write_text(copy.read_text().replace(ASKED["says"], "Anything else."))
    assert f"{changed}." in page_of(file, folder.parent), "the copy is not what the ledger has the digest of"
    copy.unlink()
    assert f"{changed}." in page_of(file, folder.parent)


def test_a_claim_keeps_the_digest_that_ledgers_have_of_it() -> None:
    """With another digest every registered claim would have changed: a new field at its default must not enter it."""
    bare = Claim.model_validate(claim())
    full = Claim.model_validate(
        claim(question="share", success={"least": 0.9}, compare=["pre"], lengths=[8], bound=0.4)
    )
    assert compute_mapping_digest(read_deciding_values(bare)) == "24a888d73cfe319d"
    assert compute_mapping_digest(read_deciding_values(full)) == "ad282d120859165e"
    assert read_deciding_values(Claim.model_validate(claim(note="Of two norms."))) == read_deciding_values(bare)
    assert read_deciding_values(Claim.model_validate(claim(statistic="mean"))) != read_deciding_values(bare)


def test_a_sweep_without_claims_has_none_registered(tiny: Path, run_inline: Callable[..., Path]) -> None:
    tiny.write_text(TINY.replace("claims: claims.yaml\n", ""))
    folder = run_inline(tiny)
    assert not SweepState.load(folder).claims and not (folder / "claims.yaml").exists()
    text = page_of(tiny.with_name("claims.yaml"), folder.parent)
    assert "without being registered" in text


def test_a_claims_file_that_cannot_be_used_is_refused_by_every_verb(tiny: Path, lengthwise: CommandLine) -> None:
    missing = ("--set", "claims=nothere.yaml")
    lengthwise.refuses("validate", tiny, *missing, message="nothere.yaml: there is no such file")
    lengthwise.refuses("validate", tiny, *missing, "--set", "model.widht=3", message="model.widht: unknown key")
    write_claims(tiny.with_name("claims.yaml"), [claim(id="elsewhere")])
    for command in ("validate", "plan"):
        lengthwise.refuses(command, tiny, message="is about sweep tiny")


def test_claims_change_no_identity(tiny: Path) -> None:
    with_claims = load_sweep(tiny)
    tiny.write_text(TINY.replace("claims: claims.yaml\n", ""))
    without = load_sweep(tiny)
    assert with_claims.claims == "claims.yaml" and without.claims is None
    assert with_claims.spec_hash == without.spec_hash and with_claims.resolved() == without.resolved()


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        (None, "claims.yaml: there is no such file"),
        ([claim(id="elsewhere")], "is about sweep tiny; allowed: made_up"),
        ([{**ASKED, "expect": "smller"}], "claims[0].expect: "),
    ],
)
def test_claims_that_cannot_be_registered_leave_nothing_behind(tiny: Path, run_inline, claims, message) -> None:
    tiny.with_name("claims.yaml").unlink()
    if claims is not None:
        write_claims(tiny.with_name("claims.yaml"), claims)
    with pytest.raises(SweepFileError) as refused:
        run_inline(tiny)
    assert message in str(refused.value)
    assert not (tiny.parent / "tiny").exists()


def test_under_another_name_it_is_another_sweep_and_registers_nothing(tiny: Path, run_inline) -> None:
    tiny.with_name("claims.yaml").unlink()
    assert not SweepState.load(run_inline(tiny, name="trial")).claims


@pytest.mark.slow
def test_missing_sweeps_are_run_and_interrupted_ones_resumed(
    tiny: Path, run_inline: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interrupted after its first evaluation, without its claims file; then by --run, in processes of their own."""
    path = [str(STARTUP), *filter(None, [os.environ.get("PYTHONPATH")])]  # figures are left blank
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    file, storage = tiny.with_name("claims.yaml"), tiny.parent
    second = TINY.replace("name: tiny", "name: second")
    tiny.with_name("second.yaml").write_text(second)
    write_claims(file, [ASKED, {**ASKED, "id": "of_second", "sweep": "second"}])
    folder = run_inline(tiny)
    whole = (folder / "events.jsonl").read_text().splitlines(keepends=True)
    first = next(i for i, line in enumerate(whole) if '"kind":"evaluation"' in line)
    shutil.rmtree(folder / "checkpoints", ignore_errors=True)
    (folder / "events.jsonl").write_text("".join(whole[: first + 1]))
    assert SweepState.load(folder).end_status is None
    lines: list[str] = []
    assert judge_file.run_missing(file, storage, lines.append) == 0
    assert lines == [
        f"lengthwise resume {folder}",
        f"lengthwise run {tiny.with_name('second.yaml')} --storage {storage}",
    ]
    for name in ("tiny", "second"):
        state = SweepState.load(storage / name)
        assert state.end_status == "complete" and state.claims, name
    lines.clear()
    assert judge_file.run_missing(file, storage, lines.append) == 0 and not lines, "nothing is trained twice"
    assert list(judge_file.judge_claims(file, storage))[-1] == "0 of 2 tests are decided"


def test_a_sweep_that_its_budget_stopped_ends_the_run_of_claims(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a sweep ends with exit code 0, and the next one is not begun."""
    tiny.with_name("second.yaml").write_text(TINY.replace("name: tiny", "name: second"))
    file = write_claims(tiny.with_name("claims.yaml"), [ASKED, {**ASKED, "id": "of_second", "sweep": "second"}])
    monkeypatch.setattr(judge_file.subprocess, "run", lambda command, check: subprocess.CompletedProcess(command, 0))
    lines: list[str] = []
    assert judge_file.run_missing(file, tiny.parent, lines.append) == 1 and len(lines) == 1


def test_a_sweep_resumes_when_the_claims_file_is_gone(tiny: Path, run_inline: Callable[..., Path]) -> None:
    folder = run_inline(tiny)
    before = SweepState.load(folder).claims
    lines = (folder / "events.jsonl").read_text().splitlines(keepends=True)
    (folder / "events.jsonl").write_text("".join(line for line in lines if '"kind":"end"' not in line))
    tiny.with_name("claims.yaml").unlink()
    assert resume_sweep(folder, Console(file=io.StringIO())).exit_code == 0
    assert SweepState.load(folder).end_status == "complete" and SweepState.load(folder).claims == before != {}


def test_a_sweep_of_a_changed_file_is_reported_and_not_resumed(tiny: Path, run_inline) -> None:
    folder = run_inline(tiny, "training.steps=10")
    file = write_claims(tiny.with_name("claims.yaml"), [ASKED])
    message = "begun with other values than its file has now: training.steps was 10, now 20."
    assert message in page_of(file, folder.parent)
    with pytest.raises(SpecChanged, match="differs from the recorded sweep"):
        judge_file.run_missing(file, tiny.parent, print)
    tiny.write_text(TINY.replace("steps: 20", "steps: 10"))
    assert "begun with" not in page_of(file, folder.parent) and judge_file.run_missing(file, tiny.parent, print) == 0


def test_a_sweep_that_was_never_run_and_has_no_file_is_named(tiny: Path) -> None:
    with pytest.raises(UserError, match=r"sweep made_up was not run, and .*made_up\.yaml does not exist"):
        judge_file.run_missing(tiny.with_name("claims.yaml"), tiny.parent, print)
    assert not (tiny.parent / "tiny").exists(), "nothing was run before that was seen"


def test_a_sweep_that_was_extended_is_still_that_of_its_file(tiny: Path, run_inline: Callable[..., Path]) -> None:
    folder, file = run_inline(tiny), tiny.with_name("claims.yaml")
    assert extend_sweep(folder, Console(file=io.StringIO()), seeds="3").exit_code == 0
    assert list_changes(SweepState.load(folder), load_claims(file)) == []
    text = page_of(file, folder.parent)
    assert "extended since" in text
    tiny.write_text(TINY.replace("seeds: 2", "seeds: 4"))
    assert list_changes(SweepState.load(folder), load_claims(file)) == [("seeds", [0, 1, 2], [0, 1, 2, 3])]


def test_a_claim_about_seeds_that_a_page_had_shown_was_known_before() -> None:
    file = load_claims(Path(__file__).parents[3] / "search_spaces" / "threshold_attention" / "claims.yaml")
    members = read_archive(locate_archive(file, "lstm_control_cpu"))
    (asked,) = [claim for claim in file.claims if claim.id == "lstm"]
    assert describe_registration(asked, members.state, members.registered).startswith("registered before")
    known = describe_registration(asked, members.state, members.registered, seeds_seen=5)
    assert known.startswith("known before") and "registered" not in known
