"""Races in which packs died: retried, they are the race that nothing disturbed."""

import pytest

from orchestrator.record.state.state import SweepState
from orchestrator.running.schedulers import inline
from tests.orchestrator.running.ledgers import same_curves, scores, sets
from tests.orchestrator.running.test_rungs import HALVING, RATES, ROUNDS

pytestmark = pytest.mark.usefixtures("no_reports")


@pytest.fixture
def dying(lengthwise, tiny, played, monkeypatch):
    """The folder of a race in which packs of some seeds died, and the same race in which none did."""

    def run(dies, *changes):
        sweep = ("--storage", tiny.parent, *sets(*RATES, *changes, "resources.retries=0"))
        whole, train_pack = played(*RATES, *changes, pack=8), inline.train_pack

        def die(work, reporter):
            if dies(work):
                raise RuntimeError("the driver of the GPU is broken")
            return train_pack(work, reporter)

        with monkeypatch.context() as broken:
            broken.setattr(inline, "train_pack", die)
            lengthwise("run", tiny, *sweep)
        return tiny.parent / "tiny", whole

    return run


@pytest.mark.slow
def test_a_race_whose_first_packs_all_died_is_run_by_retrying_them(lengthwise, dying):
    folder, whole = dying(lambda work: True, "search.racing={first: 2, keep: 0.5}")
    assert not any(record.survivors for record in (*SweepState.load(folder).rungs, *SweepState.load(folder).decisions))
    lengthwise.succeeds("resume", folder, "--retry-failed")
    assert same_curves(SweepState.load(folder), whole)


@pytest.mark.slow
def test_packs_that_paused_at_a_rung_that_nobody_survived_go_on_with_those_that_are_retried(lengthwise, dying):
    """Every configuration has a pack that died, which `fail` does not forgive; its other packs wait at the rung."""
    folder, wanted = dying(
        lambda work: work.member_ids[0][1] == 0, HALVING, "resources.pack=1", "objective.failed_seeds=fail"
    )
    assert not SweepState.load(folder).rungs[0].survivors
    lengthwise.succeeds("resume", folder, "--retry-failed")
    again = SweepState.load(folder)
    assert (again.end_status, again.rungs, scores(again)) == ("complete", wanted.rungs, scores(wanted))
    assert same_curves(again, wanted)


@pytest.mark.slow
def test_members_of_a_pack_that_was_retried_have_not_failed_though_they_were_pruned_since(lengthwise, dying):
    count = iter(range(100))
    folder, _ = dying(lambda work: next(count) in (1, 4), ROUNDS, "resources.pack=3")
    lost = [pack for pack in SweepState.load(folder).packs.values() if pack.status == "failed"]
    assert any(pack.pruned_at for pack in lost)
    lengthwise.succeeds("resume", folder, "--retry-failed")
    assert {member.status for member in SweepState.load(folder).members} == {"complete"}


@pytest.mark.slow
def test_a_race_of_one_round_gives_more_seeds_to_those_that_are_named(lengthwise, tiny):
    lengthwise.succeeds("run", tiny, "--storage", tiny.parent, *sets(*RATES, HALVING))
    message = "has neither keep nor test; give --top, too"
    lengthwise.refuses("extend", tiny.parent / "tiny", "--seeds", "+2", message=message)
    lengthwise.succeeds("extend", tiny.parent / "tiny", "--seeds", "+1", "--top", "1")
