"""A sweep driven in this process: what is recorded when, what is scored, what a death at any record costs."""

import errno
import os
import re
from collections import Counter

import numpy as np
import pytest

from orchestrator.errors import LedgerError
from orchestrator.plan.checks.sweep_file_checks import build_first_generation
from orchestrator.plan.packing.packs import Packer
from orchestrator.record.files.curves import read_curves
from orchestrator.record.ledger import ledger as ledger_module
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.records import read_records
from orchestrator.record.state.state import SweepState
from orchestrator.report.judging_notes import list_judging_notes
from orchestrator.results.make_summary import summarize
from orchestrator.results.scoring.configuration_scores import read_objective, score_configurations, score_members
from orchestrator.running.driving import driver as driver_module
from orchestrator.running.driving import sampler as drawing
from orchestrator.running.driving.budget import Limit
from orchestrator.running.schedulers import inline
from orchestrator.running.watching import meter as meter_module
from orchestrator.running.watching.meter import SpeedMeter, find_best_configuration
from orchestrator.running.watching.status import make_status_rows
from tests.orchestrator.running.ledgers import copy_cut, cut_ledger, ledger_lines, scores
from tests.orchestrator.tiny_sweeps import SHORT


class Died(KeyboardInterrupt):
    """The process is gone."""


def test_every_member_is_trained_and_every_configuration_scored_once(played):
    state = played(*SHORT)
    kinds = Counter(record.kind for record in read_records(state.folder))
    assert kinds == {"sweep": 1, "configuration": 4, "pack": 3, "evaluation": 9, "pack_end": 3, "score": 4}
    assert all(
        member.status == "complete"
        for configuration in state.configurations.values()
        for member in configuration.members.values()
    )
    curves = read_curves(state, final_only=True)
    objective = read_objective(state.spec)
    again = score_configurations(score_members(curves, objective), objective)
    assert {name: score.median for name, score in again.items()} == scores(state)


def test_configurations_that_were_just_built_are_planned_as_they_are(stage, monkeypatch):
    def planned(staged):
        kinds = ("configuration", "pack", "score")
        return [(record.kind, record.fields) for record in read_records(staged.folder) if record.kind in kinds]

    plain, given = stage("drawn", "training.steps=1"), stage("given", "training.steps=1")
    plain.play()
    with monkeypatch.context() as patch:
        patch.setattr(drawing, "make_configurations", None)  # they are not built a second time
        patch.setattr(drawing, "make_planned_configuration", None)
        given.play(first_generation=build_first_generation(given.spec))
    assert planned(given) == planned(plain) and len(planned(given)) == 11
    cut_ledger(given.folder, 3)  # two of four: what is left is drawn anew
    given.play(first_generation=build_first_generation(given.spec)[:2])
    assert planned(given) == planned(plain)


def test_an_evaluation_is_recorded_before_the_worker_goes_on(stage):
    staged = stage("order", *SHORT)
    seen = []

    def during(pack_id: str, step: int) -> None:
        last = read_records(staged.folder)[-1]
        seen.append((last.kind, last.fields["pack_id"], last.fields["step"]) == ("evaluation", pack_id, step))

    staged.play(during=during)
    assert len(seen) == 9 and all(seen)


def test_a_death_after_any_record_changes_nothing(stage, played):
    """The ledger is cut after each of its records in turn, the checkpoints as they were then or later. The resumed
    sweep ends with the same bits, scores each configuration once and trains no complete pack again."""
    short = ("training.steps=8", "evaluation.every=4", "resources.checkpoint_steps=3")
    whole = played(*short)
    wanted = read_curves(whole)
    for count in range(1, len(ledger_lines(whole.folder)) + 1):
        staged = stage(f"cut-{count}", *short)
        copy_cut(whole.folder, staged.folder, count)
        ended = [r.fields for r in read_records(staged.folder) if r.kind == "pack_end" or r.fields.get("final")]
        complete = {fields["pack_id"] for fields in ended}
        trained = set()
        state = staged.play(during=lambda pack_id, step, trained=trained: trained.add(pack_id))
        assert read_curves(state).equals(wanted), f"after {count} records"
        kinds = Counter(record.kind for record in read_records(staged.folder))
        assert kinds == {"sweep": 1, "configuration": 4, "pack": 3, "evaluation": 6, "pack_end": 3, "score": 4}
        assert not trained & complete and not state.conflicts


def test_a_death_during_training_costs_at_most_a_checkpoint_interval(stage, played):
    staged = stage("killed", *SHORT)

    def die(pack_id: str, step: int) -> None:
        if step == 8:
            raise Died

    with pytest.raises(Died):
        staged.play(during=die)
    steps = []
    state = staged.play(during=lambda pack_id, step: steps.append((pack_id, step)))
    first = read_records(staged.folder)[5].fields["pack_id"]
    # the checkpoint after step 6 carries the evaluation of step 4; 8 is done again, and not recorded twice
    assert [step for pack_id, step in steps if pack_id == first] == [4, 8, 12]
    evaluations = [r.fields for r in read_records(staged.folder) if r.kind == "evaluation"]
    assert Counter((fields["pack_id"], fields["step"]) for fields in evaluations).most_common(1)[0][1] == 1
    assert read_curves(state).equals(read_curves(played(*SHORT)))


@pytest.mark.slow
def test_results_do_not_depend_on_packs_or_their_order(stage, played):
    other = stage("b", pack=1).play(order=lambda packs: packs[::-1])
    assert read_curves(other).equals(read_curves(played()))


def test_tpe_waits_for_a_generation_and_survives_a_restart(stage):
    overrides = ("search.sampler=tpe", "search.generation=2", "search.configurations=6", "training.steps=5", "seeds=1")
    whole = stage("tpe", *overrides).play()
    assert list(whole.draws) == list(range(6))
    kinds = [record.kind for record in read_records(whole.folder)]
    assert kinds.index("score") < [i for i, kind in enumerate(kinds) if kind == "configuration"][2]

    result = summarize(whole)
    assert any(note.startswith("Sampler tpe: 4 of 6 configurations") for note in list_judging_notes(result))

    broken = stage("tpe broken", *overrides)
    deaths = []

    def die(pack_id: str, step: int) -> None:
        if pack_id not in deaths:
            deaths.append(pack_id)
            raise Died

    while True:
        try:
            state = broken.play(order=lambda packs: packs[::-1], during=die)
            break
        except Died:
            continue
    assert len(deaths) >= 3
    assert read_curves(state).equals(read_curves(whole))
    assert {n: d.values for n, d in state.draws.items()} == {n: d.values for n, d in whole.draws.items()}


def test_a_configuration_whose_seeds_all_diverge_fails_and_the_sweep_goes_on(stage):
    rates = "space={training.learning_rate: {grid: [0.003, 1.0e+30]}}"
    staged = stage("diverging", rates, "search.configurations=null", "search.sampler=grid")
    state = staged.play()
    good, bad = sorted(
        state.configurations.values(), key=lambda configuration: configuration.values["training.learning_rate"]
    )
    assert [member.status for member in bad.members.values()] == ["failed", "failed"]
    steps = sorted({member.failed_at for member in bad.members.values()})
    (message,) = [text for text in staged.messages if "diverged" in text]  # once, though later evaluations have it, too
    assert f"#{bad.number} seeds 0-1" in message and f"#{good.number} " not in message
    assert message.endswith(" to ".join(str(step) for step in steps))
    assert all(member.failed_at >= 0 for member in bad.members.values())
    assert bad.is_scored and bad.score is None
    assert good.score is not None and find_best_configuration(state) is good
    values = read_curves(state, final_only=True).set_index("config_id")["value"]
    assert np.isnan(values[bad.config_id]).all() and np.isfinite(values[good.config_id]).all()


def test_a_pack_that_is_given_up_fails_its_members_only(stage, in_packs):
    staged, victims = stage("given up", *SHORT, pack=2), []

    def die(pack_id: str, step: int) -> None:  # after an evaluation, whose values are not a result
        victims.append(pack_id)
        if pack_id == victims[0]:
            raise AttributeError("no such thing")

    in_packs(die)
    state = staged.play()
    given_up, *others = state.packs.values()
    assert given_up.status == "failed" and {pack.status for pack in others} == {"complete"}
    assert len(given_up.attempts) == 2  # an exception comes again: it is tried once more, whatever resources.retries is
    for error in given_up.attempts:
        assert re.fullmatch(r"AttributeError: no such thing \(.*test_sweep\.py:\d+\)", error)
    failed = {config_id for config_id, _ in given_up.members}
    assert {name for name, configuration in state.configurations.items() if configuration.score is None} == failed
    assert any("retrying" in text for text in staged.messages)
    assert any("failed after 2 attempts" in text for text in staged.messages)


def test_a_pack_that_was_given_up_is_tried_again_and_ends_as_if_it_had_never_died(stage, played, in_packs):
    whole, staged, victims = played(*SHORT), stage("retried", *SHORT, "resources.retries=0", pack=2), []

    def die(pack_id: str, step: int) -> None:
        victims.append(pack_id)
        if pack_id == victims[0]:
            raise AttributeError("no such thing")

    in_packs(die)
    died = staged.play()
    ((pack_id, error),) = died.failed_packs
    assert pack_id == victims[0] and "AttributeError" in error and len(died.packs[pack_id].attempts) == 1
    status = dict(make_status_rows(died))
    assert "crashed" in status["seeds failed"] and "AttributeError" in status["crashed"]
    kept = {name: score for name, score in scores(died).items() if score is not None}
    with Ledger.open(staged.folder) as ledger:
        ledger.append("retry", pack_ids=[pack_id])
    in_packs(lambda pack_id, step: None)
    trained = []
    state = staged.play(during=lambda pack_id, step: trained.append(pack_id))
    assert set(trained) == {pack_id} and not state.failed_packs and not state.conflicts
    assert read_curves(state).equals(read_curves(whole))
    assert kept.items() <= scores(state).items() and scores(state) == scores(whole)


def play_measured(staged, **settings):
    """Play a sweep and return its state and the rows of its progress after every evaluation."""
    meter, rows = SpeedMeter(SweepState.load(staged.folder)), []
    return staged.play(
        watch=lambda driver: rows.append(dict(meter.make_rows(driver.state, driver.running))), **settings
    ), rows


def test_duplicates_are_trained_once(stage):
    space = "space={training.batch_size: {choice: [8, 16]}}"
    staged = stage("duplicates", *SHORT, space, "search.configurations=5")
    state, rows = play_measured(staged)
    assert {row["configurations"].partition("/")[2] for row in rows} == {"2"}
    assert len(state.draws) == 5 and len(state.configurations) == 2
    assert sum(len(pack.members) for pack in state.packs.values()) == 4
    assert sum(record.kind == "score" for record in read_records(staged.folder)) == 2


def test_a_full_disk_stops_the_sweep_and_leaves_nothing_half_counted(stage, played, monkeypatch):
    staged = stage("full", *SHORT)
    real, written = ledger_module._write_all, Counter()

    def full(descriptor: int, content: bytes) -> None:
        if written["records"] + content.count(b"\n") > 9:
            os.write(descriptor, content[:-20])
            raise OSError(errno.ENOSPC, "No space left on device")
        written["records"] += content.count(b"\n")
        real(descriptor, content)

    monkeypatch.setattr(ledger_module, "_write_all", full)
    with pytest.raises(LedgerError, match=r"events\.jsonl: cannot be written: No space left on device"):
        staged.play()
    monkeypatch.undo()
    before = read_records(staged.folder)
    assert len(before) == 1 + written["records"] > 1
    assert read_curves(staged.play()).equals(read_curves(played(*SHORT)))


def test_curves_that_cannot_be_written_are_not_recorded(stage, monkeypatch):
    staged = stage("no curves")

    def full(*arguments):
        raise LedgerError(f"{staged.folder}/curves/x.parquet: cannot be written: No space left on device")

    monkeypatch.setattr(driver_module.curve_store, "write_part", full)
    with pytest.raises(LedgerError, match="cannot be written"):
        staged.play()
    assert not [record for record in read_records(staged.folder) if record.kind == "evaluation"]


def test_a_truncated_checkpoint_gives_way_to_the_one_before(stage, played):
    staged = stage("truncated", *SHORT)

    def die(pack_id: str, step: int) -> None:
        if step == 12:
            raise Died

    with pytest.raises(Died):
        staged.play(during=die)
    newest = sorted(staged.folder.glob("checkpoints/*/step-*.ckpt"))[-1]
    newest.write_bytes(newest.read_bytes()[:-7])
    # step 12 stands in the ledger: without its records the pack has to train again
    cut_ledger(staged.folder, -1)
    state = staged.play()
    assert any(str(newest) in text for text in staged.messages)
    assert read_curves(state).equals(read_curves(played(*SHORT)))


def heartbeat(driver, pack_id, phase, step, rate):
    beat = {"phase": phase, "step": step, "failed": 0, "member_steps_per_second": rate, "seconds": 1.0}
    driver.on_progress(pack_id, beat)


def test_the_meter_counts_steps_between_evaluations(stage):
    staged = stage("between", pack=2)
    meter, rows = SpeedMeter(SweepState.load(staged.folder)), []

    def watch(driver: driver_module.SweepDriver) -> None:
        (pack_id,) = driver.running
        if driver.running[pack_id].step == 40:
            heartbeat(driver, pack_id, "train", 50, 1070.0)
            rows.append(dict(meter.make_rows(driver.state, driver.running)))
            raise Died

    with pytest.raises(Died):
        staged.play(watch=watch)
    (row,) = rows  # of 480 steps 2 * 50 are done
    assert (row["steps"], row["phase"]) == ("21 %, 1,070 per second", "training")


def test_until_the_first_evaluation_the_meter_says_when_it_begins(stage):
    """At the speed that packs measure, of the pack that comes to it first."""
    staged, state = stage("first"), SweepState.load(stage("second").folder)
    with Ledger.open(state.folder) as ledger:
        before = dict(SpeedMeter(state).make_rows(state, {}))
        assert (before["steps"], before["time left"]) == ("-", "-")
        driver = driver_module.SweepDriver(
            staged.spec, ledger, state, packer=Packer(staged.spec, inline.describe_process(0.0))
        )
        pack_id, _ = driver.take_next_pack()
        driver.on_hand_out(pack_id)
        meter, members = SpeedMeter(state), len(state.packs[pack_id].members)
        before = dict(meter.make_rows(driver.state, driver.running))
        assert before["first evaluation"] == "-" and before["seeds"] == "0/8"  # its worker is starting
        for phase, step, text in (("train", 5, "begins in about 15 s"), ("evaluate", 20, "under way")):
            heartbeat(driver, pack_id, phase, step, members)
            assert dict(meter.make_rows(driver.state, driver.running))["first evaluation"] == text
            assert dict(meter.make_rows(driver.state, driver.running))["seeds"].startswith(f"0/8, {members} ")
    rows = play_measured(stage("third", *SHORT))[1]
    assert {row["first evaluation"] for row in rows} == {"done"}
    assert {tuple(row) for row in rows} == {tuple(before)}, "the table does not jump"


def test_a_pack_that_fails_before_an_evaluation_took_the_time_of_its_last_heartbeat(stage):
    staged, state = stage("first"), SweepState.load(stage("second").folder)
    with Ledger.open(state.folder) as ledger:
        packer = Packer(staged.spec, inline.describe_process(0.0))
        driver = driver_module.SweepDriver(staged.spec, ledger, state, packer=packer)
        pack_id, _ = driver.take_next_pack()
        driver.on_hand_out(pack_id)
        driver.on_progress(pack_id, {"phase": "train", "step": 5, "member_steps_per_second": 1.0, "seconds": 7.0})
        driver.on_retry(pack_id, "killed")
        driver.on_failure(pack_id, "killed again")
    assert SweepState.load(state.folder).packs[pack_id].seconds == 7.0


def test_a_driver_has_ended_if_nothing_is_left_to_draw_or_hand_out_or_a_limit_is_reached(stage):
    staged, state = stage("first"), SweepState.load(stage("second").folder)
    with Ledger.open(state.folder) as ledger:
        packer = Packer(staged.spec, inline.describe_process(0.0))
        driver = driver_module.SweepDriver(staged.spec, ledger, state, packer=packer)
        assert not driver.queue and not driver.has_ended()  # nothing is drawn yet
        pack_id, _ = driver.take_next_pack()
        assert driver.queue and not driver.has_ended()
        while driver.take_next_pack() is not None:
            pass
        assert driver.has_ended()
        driver.queue.append(pack_id)
        assert not driver.has_ended()
        driver.stopped_by = (Limit(used_after=2.0, allowed=1.0, text="2 of 1 hours"),)
        assert driver.has_ended() and driver.take_next_pack() is None


def test_steps_of_a_checkpoint_that_no_record_has_do_not_count_in_the_speed(stage, monkeypatch):
    """A pack of 6 of the 8 members resumes at step 40 of 60, which no record has; a step takes a second."""
    staged, state = stage("first"), SweepState.load(stage("second").folder)
    clock = 100.0
    monkeypatch.setattr(meter_module.time, "monotonic", lambda: clock)
    with Ledger.open(state.folder) as ledger:
        driver = driver_module.SweepDriver(
            staged.spec, ledger, state, packer=Packer(staged.spec, inline.describe_process(0.0))
        )
        pack_id, _ = driver.take_next_pack()
        driver.on_hand_out(pack_id)
        state.sessions.spans.append([0.0, 0.0])  # of the driver that resumes
        meter, pack = SpeedMeter(state), state.packs[pack_id]
        for step in (40, 45, 50):
            heartbeat(driver, pack_id, "train", step, 0.0)
            rows = dict(meter.make_rows(driver.state, driver.running))
            clock += 5.0
    assert (pack.steps, len(pack.members), len(state.members)) == (60, 6, 8)
    assert rows["time left"] == f"about {(8 * 60 - 6 * 50) // 6} s"


@pytest.mark.parametrize("has_ended", [False, True])
def test_no_time_left_is_estimated_while_the_starts_of_waiting_packs_are_unknown(stage, monkeypatch, has_ended):
    """A pack of 6 of the 8 members starts in 8 s, and trains up to step 40 of 60, or to its end, in 12 s."""
    staged, state = stage("first"), SweepState.load(stage("second").folder)
    clock = [0.0]
    monkeypatch.setattr(meter_module.time, "monotonic", lambda: 100.0 + clock[0])
    with Ledger.open(state.folder) as ledger:
        packer = Packer(staged.spec, inline.describe_process(0.0))
        driver = driver_module.SweepDriver(staged.spec, ledger, state, packer=packer)
        pack_id, _ = driver.take_next_pack()
        driver.on_hand_out(pack_id)
        meter, texts = SpeedMeter(state), []
        assert dict(meter.make_rows(state, driver.running))["phase"] == "starting workers"
        for second, step in ((0.0, 0), (8.0, 1), (20.0, 40), (44.0, 50)):
            clock[0] = second
            heartbeat(driver, pack_id, "train", step, 0.0)
            if has_ended and step == 40:
                state.packs[pack_id].status = "complete"
                del driver.running[pack_id]
                assert dict(meter.make_rows(state, driver.running))["phase"] == "-"
            texts.append(dict(meter.make_rows(state, driver.running))["time left"])
            if has_ended and step == 40:
                next_pack_id, _ = driver.take_next_pack()
                driver.on_hand_out(next_pack_id)
                assert "workers" not in dict(meter.make_rows(state, driver.running))["phase"]
                break
    if has_ended:
        assert texts == ["-", "-", f"about {round(2 * 60 / (6 * 60 / 20))} s"]
    else:
        assert texts == ["-", "-", "-", f"about {round((8 * 60 - 6 * 50) / (6 * 50 / 44))} s"]


@pytest.mark.parametrize("sets", [("training.stop={metric: kl, threshold: 100.0, samples: 2}",), ()], ids=str)
def test_the_table_has_the_seeds_that_stopped_early_where_they_may(stage, sets: tuple[str, ...]):
    """All stop at their first evaluation."""
    texts = [row.get("seeds stopped early") for row in play_measured(stage("stopping", *SHORT, *sets))[1]]
    steps = [int(text) for text in texts if text is not None]
    assert steps == sorted(steps) and len(set(steps)) > 1 if sets else not steps


def test_the_meter_counts_what_is_done_and_what_is_left(stage):
    state, rows = play_measured(stage("metered", *SHORT, pack=2))
    shares = [f"{100 * 2 * 4 * step / 96:.0f} %" for step in range(1, 13)]
    assert [row["steps"].partition(",")[0] for row in rows] == shares
    assert rows[-1]["seeds"] == "6/8, 2 training" and rows[0]["best so far"] == "none yet"
    metric, direction = (state.spec["objective"][key] for key in ("metric", "direction"))
    scored_by = rows[0]["scored by"]
    assert scored_by.startswith(f"{metric} ") and ("lower" in scored_by) == (direction == "minimize")
    best = find_best_configuration(state)
    assert rows[-1]["best so far"] in {
        f"{configuration.score:#.3g} (#{configuration.number})" for configuration in state.configurations.values()
    }
    assert dict(SpeedMeter(state).make_rows(state, {}))["best so far"].endswith(f"(#{best.number})")
