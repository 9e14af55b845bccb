"""A pack that runs out of memory in its course is halved, and its halves continue from its newest checkpoint."""

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
import torch

from orchestrator.record.state.repackings import describe_repacking, describe_repackings, sum_seconds
from orchestrator.record.state.state import SweepState
from orchestrator.running.driving.driver import SweepDriver
from tests.orchestrator.running.ledgers import evaluated_once, keyed, records, sets, wait_for
from tests.orchestrator.running.test_elastic import RACE
from tests.orchestrator.running.test_out_of_memory import play
from tests.orchestrator.tiny_sweeps import SHORT
from trainers.training import loop, start_checkpoints

ALIKE = ("space.training.batch_size=null", "search.configurations=6")  # 12 members of one structure


@pytest.fixture
def runs_out(reporting, monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], list[tuple[int, int]]]:
    """runs_out(4, 20): packs of more than 4 members run out of memory once their evaluation at step 20 is recorded.

    The list gets the members and the first step of every pack that begins without a checkpoint of its own.
    """
    join, began = start_checkpoints.join_checkpoints, list[tuple[int, int]]()

    def joined(states: Any, *arguments: Any, **more: Any) -> Any:
        snapshot, notices = join(states, *arguments, **more)
        began.append((len(states), snapshot.step if snapshot else 0))
        return snapshot, notices

    def limit_memory(room: int, last: int) -> list[tuple[int, int]]:
        def limited(work: Any, evaluation: Any, record: Any) -> None:
            record(evaluation)
            if evaluation.step >= last and len(work.member_ids) > room:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

        reporting(limited)
        monkeypatch.setattr(loop, "join_checkpoints", joined)
        began.clear()
        return began

    return limit_memory


def recorded_once(state: SweepState) -> None:
    """Every evaluation of a pack is recorded once, and what is read again is what was written."""
    assert evaluated_once(state.folder) and not state.conflicts and not state.failed_packs
    assert all(configuration.has_ended for configuration in state.configurations.values())
    replayed = SweepState.load(state.folder)
    assert (replayed.packs, replayed.repackings) == (state.packs, state.repackings)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("saved", "room", "starts"),
    [
        ("resources.checkpoint_steps=15", 3, [(6, 30), (6, 30), (3, 31), (3, 31), (3, 31), (3, 31)]),
        ("resources.checkpoint_steps=null", 6, [(6, 0), (6, 0)]),
    ],
)
def test_halves_continue_from_the_newest_checkpoint(stage, played, runs_out, saved, room, starts) -> None:
    whole, staged = played(*ALIKE), stage("one", *ALIKE, saved, "resources.pack=12")
    began = runs_out(room, 40)
    state = play(staged)
    recorded_once(state)
    assert keyed(state).equals(keyed(whole))
    first = state.repackings[0]
    assert (first.shortage.members, len(first.new_ids), first.device, first.resumes_checkpoint) == (12, 2, "cpu", True)
    assert staged.messages[0] == describe_repacking(first) and "checkpoint" in staged.messages[0] and began == starts
    if starts[0] == (6, 0):
        assert "has no usable state of" in staged.messages[1] and "the pack starts from step 0" in staged.messages[1]


def test_packs_like_it_that_no_worker_has_begun_are_cut_alone(stage, played, runs_out) -> None:
    whole, staged = played(*ALIKE, *SHORT), stage("one", *ALIKE, *SHORT, "resources.pack=6")
    runs_out(3, 8)
    state = play(staged)
    recorded_once(state)
    assert keyed(state).equals(keyed(whole))
    first, second = state.repackings
    assert (
        [len(repacking.new_ids) for repacking in (first, second)] == [2, 2]
        and first.resumes_checkpoint
        and not second.shortage
    )
    assert {len(pack.members) for pack in state.packs.values()} == {3}
    assert [bool(state.packs[name].replaced_pack_ids) for name in (*first.new_ids, *second.new_ids)] == [
        True,
        True,
        False,
        False,
    ]


def test_the_time_of_a_pack_that_was_replaced_counts(stage, runs_out) -> None:
    staged = stage("one", *ALIKE, *SHORT, "resources.pack=12")
    runs_out(6, 8)
    state = play(staged)
    (repacking,) = state.repackings
    alone = sum(pack.seconds for pack in state.packs.values())
    assert repacking.seconds > 0 and sum_seconds(state.packs, state.repackings) == alone + repacking.seconds


@pytest.mark.slow
@pytest.mark.parametrize("last", [10, 15])
def test_a_race_decides_alike(stage, played, runs_out, last: int) -> None:
    """Its rungs are at steps 10 and 20: memory runs out at the first one, and after it."""
    whole, staged = played(*RACE, pack=16), stage("one", *RACE, "resources.pack=16")
    runs_out(4, last)
    state = play(staged)
    recorded_once(state)
    assert keyed(state).equals(keyed(whole))
    assert (state.rungs, state.decisions) == (whole.rungs, whole.decisions) and len(whole.rungs) == 2
    assert any(repacking.resumes_checkpoint for repacking in state.repackings)


@pytest.mark.slow
def test_a_driver_that_ends_after_the_halving_is_resumed(stage, played, runs_out) -> None:
    whole, staged = played(*ALIKE), stage("one", *ALIKE, "resources.pack=12")
    began = runs_out(6, 40)

    def stop(driver: SweepDriver) -> None:
        halves = [pack for pack in driver.state.packs.values() if pack.replaced_pack_ids]
        if any(pack.step == 60 for pack in halves):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(staged, tick=stop)
    assert SweepState.load(staged.folder).repackings and not SweepState.load(staged.folder).failed_packs
    state = play(staged)
    recorded_once(state)
    assert keyed(state).equals(keyed(whole))
    assert began == [(6, 30), (6, 30)] and len(state.repackings) == 1


@pytest.mark.slow
def test_with_workers_also_if_the_driver_is_killed(lengthwise, tiny, tmp_path, played, no_reports):
    hold, folder = tmp_path / "hold", tmp_path / "short" / "tiny"
    settings = sets(*ALIKE, "resources.pack=12")
    run = ("run", tiny, *settings, "--storage")
    given = {"RUNS_OUT": "6 40", "HOLD": str(hold)}
    hold.write_text("until 4")  # a half waits at its second evaluation
    on = ("--set", "resources.scheduler=local", "--set", "resources.workers=1")
    driver = lengthwise.start(*run, folder.parent, *on, **given)
    wait_for(lambda: len(records(folder, "evaluation")) >= 4, driver)
    os.kill(driver.pid, signal.SIGKILL)
    out, _ = driver.communicate()
    (sentence,) = describe_repackings(SweepState.load(folder).repackings)
    assert sentence in out
    hold.unlink()
    done = lengthwise.process("resume", folder, "--set", "resources.scheduler=inline", **given)
    assert done.returncode == 0, done.stdout + done.stderr
    state = SweepState.load(folder)
    recorded_once(state)
    assert keyed(folder).equals(keyed(played(*ALIKE)))
    assert sentence in lengthwise("status", folder).stdout
    assert len(state.packs) == 2 and all(pack.replaced_pack_ids for pack in state.packs.values())
