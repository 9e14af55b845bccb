"""extend --steps: members trained on from kept states end with the bits of those trained so long from the beginning."""

import io
import shutil
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from orchestrator.errors import SweepExists, UserError
from orchestrator.figures import drawing
from orchestrator.record.state.state import SweepState
from orchestrator.sweep.confirm import plan_confirmation
from orchestrator.sweep.derived_sweep import DerivedSweep
from orchestrator.sweep.extend import extend_sweep
from orchestrator.sweep.more_steps import extend_steps, plan_more_steps
from orchestrator.sweep.run_and_resume import resume_sweep, run_sweep
from orchestrator.upkeep.deletion import plan_deletion
from search_spaces import SweepSpec, parse_sweep
from tests.command_line import CommandLine
from tests.no_reports import leave_out_reports
from tests.orchestrator.running.ledgers import begin_ledger, keyed, same_curves
from tests.startup.sitecustomize import blank
from trainers.training import loop, start_checkpoints

QUIET = Console(quiet=True)
SWEEP = """\
name: few
study: tests
task: {name: set_complement, vocabulary: 6, train_length: 3, target: soft}
model: {name: attention_only, width: 8, value_width: 4, dropout: 0.2}
training:
  steps: 6
  batch_size: 4
  learning_rate: 0.01
  compile: false
  schedule: {name: constant, warmup: 3}
  averages: {raw: {}, ema: {decay: 0.9}}
space: {training.learning_rate: {choice: [0.01, 0.02, 0.03]}, training.batch_size: {grid: [4, 5]}}
search: {sampler: random, configurations: 2, seed: 1}
seeds: 3
evaluation: {every: 4, samples: 20}
objective: {metric: total_variation, average: raw, lengths: [4], direction: minimize}
resources: {scheduler: inline, pack: 2}
tracking: {enabled: false}
"""


def sweep(*overrides: str, name: str = "few") -> SweepSpec:
    return parse_sweep(SWEEP, "few.yaml", overrides, name)


def run(storage: Path, *overrides: str, name: str = "few") -> Path:
    with leave_out_reports():
        assert run_sweep(sweep(*overrides, name=name), storage, QUIET).exit_code == 0
    return storage / name


def plan(**options: Any) -> partial[DerivedSweep]:
    return partial(plan_more_steps, steps=11, **options)


@pytest.fixture(scope="module", autouse=True)
def _figures_left_blank() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(drawing, "save_figure", blank)
        yield


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("few"))


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("long"), "training.steps=11", name="long")


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The steps from which packs have started, 0 for those without a state."""
    steps: list[int] = []

    def join(*arguments: Any, **more: Any) -> Any:
        snapshot, notices = start_checkpoints.join_checkpoints(*arguments, **more)
        steps.append(snapshot.step if snapshot else 0)
        return snapshot, notices

    monkeypatch.setattr(loop, "join_checkpoints", join)
    return steps


@pytest.mark.slow
def test_they_end_with_the_bits_of_a_sweep_of_so_many_steps(tmp_path: Path, done: Path, long: Path, joined) -> None:
    """Also in other packs than before."""
    folder = shutil.copytree(done, tmp_path / "few")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert extend_steps(folder, QUIET, plan(overrides=["resources.pack=5"])).exit_code == 0
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before
    assert set(joined) == {6}
    assert keyed(tmp_path / "few-steps-11").equals(keyed(long))


@pytest.mark.slow
def test_one_that_is_killed_is_resumed(
    tmp_path: Path, done: Path, long: Path, joined, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(done, tmp_path / "few")
    evaluate, calls = loop.evaluate, list[int]()

    def interrupted(*arguments: Any, **more: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return evaluate(*arguments, **more)

    monkeypatch.setattr(loop, "evaluate", interrupted)
    assert extend_steps(folder, QUIET, plan(labels=["0", "3"], name="again")).exit_code == 130
    monkeypatch.setattr(loop, "evaluate", evaluate)
    assert resume_sweep(tmp_path / "again", QUIET).exit_code == 0
    again = SweepState.load(tmp_path / "again")
    assert len(again.configurations) == 2 and same_curves(again, SweepState.load(long))
    assert plan_confirmation(again, top=1, seeds="2").spec.seeds == (3, 4)
    with pytest.raises(SweepExists, match="it is finished; show it with: lengthwise report "):
        extend_steps(folder, QUIET, plan(name="again"))


KILLED = """
import os, signal, sys
from functools import partial
from pathlib import Path
from rich.console import Console
from orchestrator.sweep.more_steps import extend_steps, plan_more_steps
from trainers.training import loop

name, calls = sys.argv[2], int(sys.argv[3])
original = getattr(loop, name)

def killed(*arguments, **more):
    global calls
    calls -= 1
    if not calls:
        os.kill(os.getpid(), signal.SIGKILL)
    return original(*arguments, **more)

setattr(loop, name, killed)
extend_steps(Path(sys.argv[1]), Console(quiet=True), partial(plan_more_steps, steps=11, name="again"))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "call", "evaluated"),
    [("join_checkpoints", 1, set()), ("evaluate", 2, {4, 8})],
    ids=["before the states are joined", "before the last evaluation"],
)
def test_a_driver_that_is_killed_is_resumed_to_the_same_bits(
    lengthwise: CommandLine, tmp_path: Path, done: Path, long: Path, name: str, call: int, evaluated: set[int]
) -> None:
    """The evaluation at step 4 is one of the shorter sweep, which comes with its states."""
    folder, again = shutil.copytree(done, tmp_path / "few"), tmp_path / "again"
    killed = lengthwise.process(folder, name, call, program=KILLED)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert {step for pack in SweepState.load(again).packs.values() for step in pack.evaluations} == evaluated
    assert resume_sweep(again, QUIET).exit_code == 0
    assert keyed(again).equals(keyed(long)) and not SweepState.load(again).conflicts


def test_without_the_states_it_trains_from_the_beginning(tmp_path: Path, done: Path, long: Path, joined) -> None:
    folder = shutil.copytree(done, tmp_path / "few")
    first, *_ = sorted((folder / "checkpoints").glob("*/step-*.ckpt"))
    first.unlink()
    assert extend_steps(folder, QUIET, plan()).exit_code == 0
    assert set(joined) == {0, 6}
    assert keyed(tmp_path / "few-steps-11").equals(keyed(long))


def test_members_that_a_race_left_out_start_from_step_0_in_packs_of_their_own(
    tmp_path: Path, long: Path, joined
) -> None:
    folder = run(tmp_path, "search.racing={first: 2, keep: 0.5}", "space.training.batch_size=null", "resources.pack=3")
    lost = [
        configuration
        for configuration in SweepState.load(folder).configurations.values()
        if 2 not in configuration.members
    ]
    assert not [line for line in plan(top=1)(SweepState.load(folder)).messages if line.startswith("note:")]
    assert extend_steps(folder, console := Console(file=io.StringIO(), record=True, width=300), plan()).exit_code == 0
    note = f"note: 1 of 6 members start from step 0: #{lost[0].number} were eliminated before the race had all seeds"
    assert len(lost) == 1 and note in console.export_text()
    state = SweepState.load(tmp_path / "few-steps-11")
    packs = [sorted({seed for _, seed in pack.members}) for pack in state.packs.values()]
    assert sorted(packs) == [[0, 1], [0, 1, 2], [2]]
    assert joined == [6, 6], "the third pack has no states to join"
    assert same_curves(state, SweepState.load(long))


@pytest.mark.parametrize(
    ("lost", "steps", "message"), [(True, 11, "no checkpoints: not written"), (False, 6, "already has 6 steps")]
)
def test_what_cannot_be_continued_is_refused(tmp_path: Path, done: Path, lost: bool, steps: int, message: str) -> None:
    shutil.copytree(done, tmp_path / "few", ignore=shutil.ignore_patterns("*.ckpt") if lost else None)
    with pytest.raises(UserError, match=message):
        plan_more_steps(SweepState.load(tmp_path / "few"), steps)
    assert [path.name for path in tmp_path.iterdir()] == ["few"]


def test_a_schedule_that_depends_on_the_steps_is_refused(tmp_path: Path) -> None:
    folder = run(tmp_path, "training.schedule={name: cosine}", "search.configurations=1", "seeds=1")
    with pytest.raises(UserError, match="cannot be trained further: the schedule cosine depends on"):
        plan_more_steps(SweepState.load(folder), 11)


def test_configurations_that_differ_in_their_steps_alone_are_refused_together(tmp_path: Path) -> None:
    folder = run(tmp_path, "space={training.steps: {grid: [5, 6]}}", "search={sampler: grid}", "seeds=1")
    state = SweepState.load(folder)
    with pytest.raises(UserError, match=r"#[01] and #[01] differ only in training.steps.*--configuration"):
        plan_more_steps(state, 11)
    assert plan_more_steps(state, 11, labels=["1"]).spec.search.listed == ({"training.steps": 11},)
    listed = "search={sampler: listed, listed: [{training.batch_size: 3}, {training.batch_size: 3, training.steps: 5}]}"
    folder = run(tmp_path, "space={}", listed, "seeds=1", name="listed")
    with pytest.raises(UserError, match=r"differ only in training.steps"):
        plan_more_steps(SweepState.load(folder), 11)


def test_seeds_that_not_all_configurations_have_are_named(done: Path) -> None:
    state = SweepState.load(done)
    assert not [line for line in plan_more_steps(state, 11).messages if "skipping seeds" in line]
    configuration = next(iter(state.configurations.values()))
    configuration.members[7] = configuration.members[0]
    assert (
        f"note: skipping seeds 7 of #{configuration.number}: not every configuration has them"
        in plan_more_steps(state, 11).messages
    )


def test_the_sweep_that_stays_and_the_new_one_are_named(done: Path) -> None:
    for name in (None, "changed"):
        derived = plan_more_steps(SweepState.load(done), 11, name=name)
        line = next(line for line in derived.messages if "stays as it is" in line).split()
        assert line[:2] == ["sweep", "few"] and line[-1] == derived.spec.name == (name or "few-steps-11")


def test_a_sweep_in_which_nothing_succeeded_is_refused(done: Path) -> None:
    state = SweepState.load(done)
    for configuration in state.configurations.values():
        configuration.score = None
    with pytest.raises(UserError, match="--steps 11: no configuration succeeded"):
        plan_more_steps(state, 11)


def test_an_unfinished_sweep_and_unequal_asks_are_refused(tmp_path: Path) -> None:
    begin_ledger(tmp_path / "few", sweep()).close()
    with pytest.raises(UserError, match="not finished"):
        plan_more_steps(SweepState.load(tmp_path / "few"), 11)


def test_a_confirmation_uses_no_seed_of_the_sweep_that_was_continued(tmp_path):
    folder = run(tmp_path)
    extend_sweep(folder, QUIET, seeds="5", labels=["0"])
    assert extend_steps(folder, QUIET, plan(top=1)).exit_code == 0
    longer = SweepState.load(tmp_path / "few-steps-11")
    assert plan_confirmation(longer, top=1, seeds="2").spec.seeds == (5, 6)
    with pytest.raises(UserError, match="3"):
        plan_confirmation(longer, top=1, seeds="3,9")
    sentence = "members that few-steps-11 has not resumed yet restart from step 0"
    assert (
        sentence in plan_deletion(folder).sentence and sentence in plan_deletion(folder, checkpoints_only=True).sentence
    )
