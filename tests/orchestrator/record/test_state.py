"""The replayed view: idempotent, tolerant to order, loud about contradictions."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from orchestrator.errors import DamagedLedger, NotASweep
from orchestrator.plan.packing.pack_sizes import Shortage
from orchestrator.record.files.curves import read_curves
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.ledger.records import Record, read_records
from orchestrator.record.state.repackings import describe_repackings, sum_seconds
from orchestrator.record.state.state import SweepState
from tests.orchestrator.record.nothing_measured import NOTHING_MEASURED


def view(state: SweepState) -> str:
    """Everything a state says, as text."""
    return repr(vars(state))


def configuration(number: int, name: str, duplicate_of: str | None = None) -> tuple[str, dict[str, Any]]:
    values = {"training.learning_rate": 0.1 * number}
    return "configuration", {
        "number": number, "config_id": name, "values": values, "resolved": {"model": {}}, "duplicate_of": duplicate_of,
        **NOTHING_MEASURED,
    }  # fmt: skip


def pack(name: str, *members: tuple[str, int]) -> tuple[str, dict[str, Any]]:
    return "pack", {
        "pack_id": name,
        "structural_key": "k",
        "members": [list(member) for member in members],
        "steps": 100,
    }


def evaluation(name: str, step: int, failed_at: list[int], sha256: str = "a" * 64) -> tuple[str, dict[str, Any]]:
    return "evaluation", {
        "pack_id": name, "step": step, "final": step == 100, "file": f"curves/{name}-{step}", "sha256": sha256,
        "loss": [0.5] * len(failed_at), "failed_at": failed_at, "seconds": step / 10, "form": "table", "compiled": True,
    }  # fmt: skip


def pack_end(name: str, status: str = "complete", error: str | None = None) -> tuple[str, dict[str, Any]]:
    return "pack_end", {"pack_id": name, "status": status, "error": error, "seconds": 12.0}


def score(number: int, name: str, value: float | None) -> tuple[str, dict[str, Any]]:
    return "score", {"number": number, "config_id": name, "score": value, "seeds_failed": 0}


SPEC = {"seeds": [0, 1]}
SWEEP: tuple[str, dict[str, Any]] = (
    "sweep",
    {"schema": 1, "name": "n", "study": "t", "spec": SPEC, "spec_hash": "h", "provenance": {"python": "3.11"}},
)
STORY = [
    SWEEP,
    configuration(0, "c0"),
    configuration(1, "c1"),
    pack("p0", ("c0", 0), ("c0", 1)),
    pack("p1", ("c1", 0), ("c1", 1)),
    evaluation("p0", 50, [-1, -1]),
    ("attempt", {"pack_id": "p1", "attempt": 1, "error": "worker died"}),
    evaluation("p0", 100, [-1, 70]),
    pack_end("p0"),
    score(0, "c0", 0.25),
    ("end", {"status": "interrupted", "message": "stopped"}),
    ("resume", {"provenance": {"python": "3.12"}}),
    evaluation("p1", 50, [-1, -1]),
]


def records(*story: tuple[str, dict[str, Any]]) -> list[Record]:
    return [Record(seq, 1000.0 + seq, kind, fields) for seq, (kind, fields) in enumerate(story)]


def replay(*story: tuple[str, dict[str, Any]]) -> SweepState:
    return SweepState.replay(Path("sweeps/n"), records(*story))


def statuses(state: SweepState, name: str) -> list[str]:
    return [member.status for member in state.configurations[name].members.values()]


def test_a_sweep_is_loaded_from_a_path_or_its_text(small_sweep: SweepState) -> None:
    state = SweepState.load(str(small_sweep.folder))
    assert state.folder == small_sweep.folder and state.end_status == "complete"
    with pytest.raises(NotASweep):
        SweepState.load(str(small_sweep.folder / "missing"))


def test_the_view_of_a_sweep_in_its_middle() -> None:
    state = replay(*STORY)
    assert (state.name, state.study, state.spec_hash, state.spec) == ("n", "t", "h", {"seeds": [0, 1]})
    assert state.provenance == {"python": "3.11"}
    assert state.resumes == [{"python": "3.12"}]
    assert (state.end_status, state.end_message) == (None, None)
    assert (state.started_at, state.updated_at) == (1000.0, 1012.0)
    assert list(state.configurations) == ["c0", "c1"]
    assert state.list_packed_seeds() == {"c0": (0, 1), "c1": (0, 1)}
    assert statuses(state, "c0") == ["complete", "failed"]
    assert statuses(state, "c1") == ["running", "running"]
    failed = state.configurations["c0"].members[1]
    assert (failed.failed_at, failed.step, failed.form, failed.compiled, failed.error) == (70, 100, "table", True, None)
    assert (state.configurations["c0"].score, state.configurations["c0"].is_scored) == (0.25, True)
    assert (state.configurations["c1"].score, state.configurations["c1"].is_scored) == (None, False)
    p0, p1 = state.packs["p0"], state.packs["p1"]
    assert (p0.status, p0.step, p0.seconds, list(p0.evaluations)) == ("complete", 100, 12.0, [50, 100])
    assert (p1.status, p1.step, p1.seconds, p1.attempts) == ("running", 50, 5.0, ["worker died"])
    assert p1.members == [("c1", 0), ("c1", 1)]


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_records_does_not_matter(seed: int) -> None:
    shuffled = records(*STORY)
    random.Random(seed).shuffle(shuffled)
    assert view(SweepState.replay(Path("sweeps/n"), shuffled)) == view(replay(*STORY))


def test_saying_everything_twice_changes_nothing() -> None:
    once = replay(*STORY, pack_end("p1"), score(1, "c1", 0.5))
    twice = replay(*STORY, *STORY[1:6], *STORY[7:10], STORY[12], pack_end("p1"), score(1, "c1", 0.5), *STORY[1:6])
    twice.updated_at, twice.sessions = once.updated_at, once.sessions  # said again later
    assert view(once) == view(twice)


def test_applying_as_it_goes_equals_replaying_at_the_end() -> None:
    state = SweepState(Path("sweeps/n"))
    for record in records(*STORY):
        state.apply(record)
    assert view(state) == view(replay(*STORY))


def test_a_different_second_report_is_kept_out_and_shown() -> None:
    state = replay(*STORY, evaluation("p0", 100, [-1, -1], sha256="b" * 64))
    assert state.packs["p0"].evaluations[100]["sha256"] == "a" * 64
    assert statuses(state, "c0") == ["complete", "failed"]
    assert state.conflicts == [
        "events.jsonl:14: pack p0 reported step 100 again with other curves; the first report counts"
    ]
    assert replay(*STORY).conflicts == []


def test_the_first_score_counts() -> None:
    state = replay(*STORY, score(0, "c0", 9.0), score(1, "c1", None))
    assert state.configurations["c0"].score == 0.25
    assert (state.configurations["c1"].score, state.configurations["c1"].is_scored) == (None, True)


def test_a_pack_that_died_fails_its_members() -> None:
    state = replay(*STORY, pack_end("p1", "failed", "worker died"))
    assert statuses(state, "c1") == ["failed", "failed"]
    assert [member.error for member in state.configurations["c1"].members.values()] == ["worker died"] * 2
    assert [member.failed_at for member in state.configurations["c1"].members.values()] == [None, None]
    assert (state.packs["p1"].status, state.packs["p1"].error) == ("failed", "worker died")


def test_a_pack_that_died_may_complete_after_all_but_not_the_reverse() -> None:
    died, done = pack_end("p1", "failed", "worker died"), pack_end("p1")
    for story in ([died, done], [done, died]):
        state = replay(*STORY, *story)
        assert statuses(state, "c1") == ["complete", "complete"]
        assert (state.packs["p1"].status, state.packs["p1"].error) == ("complete", None)


def test_a_retry_opens_packs_that_were_given_up_and_the_next_score_counts() -> None:
    died = [*STORY, evaluation("p1", 60, [-1, 55]), pack_end("p1", "failed", "KeyError: 'x'"), score(1, "c1", None)]
    assert replay(*died).failed_packs == [("p1", "KeyError: 'x'")]
    retried = [*died, ("end", {"status": "complete", "message": ""}), ("retry", {"pack_ids": ["p0", "p1"]})]
    state = replay(*retried)
    assert (state.packs["p1"].status, state.packs["p1"].error, state.packs["p1"].attempts) == ("running", None, [])
    assert statuses(state, "c1") == ["running", "failed"]  # a seed that diverged stays failed
    assert not state.configurations["c1"].is_scored and state.failed_packs == []
    assert state.end_status is None
    assert (state.packs["p0"].status, state.configurations["c0"].score) == ("complete", 0.25)  # it had not died
    done = replay(*retried, evaluation("p1", 100, [-1, 55]), pack_end("p1"), score(1, "c1", 0.5), score(1, "c1", 0.7))
    assert statuses(done, "c1") == ["complete", "failed"]
    assert done.configurations["c1"].score == 0.5
    again = replay(*retried, pack_end("p1", "failed", "KeyError: 'y'"), score(1, "c1", None))
    assert again.failed_packs == [("p1", "KeyError: 'y'")] and again.configurations["c1"].is_scored


def test_a_retry_of_a_pack_without_evaluations_has_it_planned() -> None:
    retry = ("retry", {"pack_ids": ["p1"]})
    state = replay(*STORY[:5], pack_end("p1", "failed", "worker died"), score(1, "c1", None), retry)
    assert state.packs["p1"].status == "planned" and statuses(state, "c1") == ["planned", "planned"]


def recut(old: list[str], *new: tuple[str, dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    return "recut", {"pack_ids": old, "packs": [fields for _, fields in new], "workers": 3}


HALVES = pack("p2", ("c0", 0)), pack("p3", ("c0", 1))
CUT = [*STORY[:5], recut(["p0"], *HALVES), evaluation("p2", 50, [-1])]


@pytest.mark.parametrize("seed", range(5))
def test_repacked_packs_give_way_to_others_in_any_order_of_records(seed: int) -> None:
    shuffled = records(*CUT)
    random.Random(seed).shuffle(shuffled)
    state = SweepState.replay(Path("sweeps/n"), shuffled)
    assert view(state) == view(replay(*CUT))
    assert list(state.packs) == ["p1", "p2", "p3"]
    assert {member.pack_id for member in state.configurations["c0"].members.values()} == {"p2", "p3"}
    assert statuses(state, "c0") == ["running", "planned"]
    (sentence,) = describe_repackings(state.repackings)
    assert "repacked" in sentence and re.findall(r"\d+", sentence) == ["1", "2", "3"]  # old packs, new packs, workers


@pytest.mark.parametrize("story", [STORY, CUT, [*STORY, evaluation("p1", 60, [-1, 55]), pack_end("p1", "failed", "x")]])
def test_what_is_trained_is_kept_up_to_date(story: list[tuple[str, dict[str, Any]]]) -> None:
    state = SweepState(Path("sweeps/n"))
    for record in records(*story, ("retry", {"pack_ids": ["p1"]})):
        state.apply(record)
        steps = sum(pack.sum_member_steps(pack.step) for pack in state.packs.values())
        assert state.trained.member_steps == steps
        assert state.trained.seconds == pytest.approx(sum_seconds(state.packs, state.repackings))
    assert steps > 0


def test_packs_may_be_repacked_repeatedly_and_a_record_may_be_repeated() -> None:
    back = recut(["p2", "p3"], pack("p0", ("c0", 0), ("c0", 1)))
    again = [*STORY[:5], recut(["p0"], *HALVES), back]
    assert list(replay(*again).packs) == ["p1", "p0"]
    state, twice = replay(*again, recut(["p0"], *HALVES)), replay(*again, recut(["p0"], *HALVES), *again[5:6])
    assert list(state.packs) == ["p1", "p2", "p3"] and len(state.repackings) == 3
    (sentence,) = describe_repackings(state.repackings)
    assert re.findall(r"\d+", sentence) == ["3", "1", "2", "3"]  # how often, then the last time
    twice.updated_at, twice.sessions = state.updated_at, state.sessions
    assert view(twice) == view(state)


def test_a_pack_that_ran_out_of_memory_gives_way_also_after_another_death() -> None:
    shortage = {"structural_key": "k", "members": 2, "bytes": 2**33}
    kind, fields = recut(["p0"], *HALVES)
    died = ("attempt", {"pack_id": "p0", "attempt": 1, "error": "worker died"})
    short = {
        **fields,
        "shortage": {"pack_id": "p0", **shortage, "device": "NVIDIA H100", "error": "no room", "seconds": 3.0},
    }
    state = replay(*STORY[:5], died, (kind, short))
    assert list(state.packs) == ["p1", "p2", "p3"] and state.repackings[0].shortage == Shortage(**shortage)
    (sentence,) = describe_repackings(state.repackings)
    cause, _, effect = sentence.partition(":")
    assert "out of memory" in cause and "NVIDIA H100" in cause and "checkpoint" not in effect
    assert re.findall(r"\d+", effect) == ["2", "2"]  # members of the pack, new packs
    with pytest.raises(DamagedLedger, match="recut: a worker has already begun pack p0"):
        replay(*STORY[:5], died, (kind, fields))
    evaluated = evaluation("p0", 50, [-1, -1])
    assert list(replay(*STORY[:5], evaluated, (kind, short)).packs) == ["p1", "p2", "p3"]
    with pytest.raises(DamagedLedger, match="recut: a worker has already begun pack p0"):
        replay(*STORY[:5], evaluated, (kind, fields))


def test_draws_that_resolve_alike_share_a_configuration() -> None:
    state = replay(
        SWEEP, configuration(0, "c0"), configuration(1, "c0", "c0"), score(0, "c0", 0.5), score(1, "c0", 0.7)
    )
    assert list(state.configurations) == ["c0"]
    assert state.configurations["c0"].number == 0
    assert [(draw.number, draw.duplicate_of) for draw in state.draws.values()] == [(0, None), (1, "c0")]
    assert state.configurations["c0"].score == 0.5
    assert state.draws[1].values == {"training.learning_rate": 0.1}


def test_the_end_stands_until_a_resume() -> None:
    end = ("end", {"status": "failed", "message": "no configuration succeeded"})
    assert replay(*STORY, end).end_status == "failed"
    assert replay(*STORY, end).end_message == "no configuration succeeded"
    assert replay(*STORY, end, STORY[11]).end_status is None


def test_publishing_is_remembered() -> None:
    records = [
        ("publish", {"uri": f"sqlite:///{name}", "ok": ok, "message": ""})
        for name, ok in (("x", True), ("y", False), ("x", True))
    ]
    assert replay(*STORY, *records).published_at == ["sqlite:///x"]


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        (("trial", {}), "unknown kind of record 'trial'"),
        (evaluation("p9", 50, [-1]), "evaluation of unknown pack p9"),
        (pack_end("p9"), "pack_end of unknown pack p9"),
        (("attempt", {"pack_id": "p9", "attempt": 1, "error": ""}), "attempt of unknown pack p9"),
        (("retry", {"pack_ids": ["p9"]}), "retry of unknown pack p9"),
        (evaluation("p1", 100, [-1]), "p1 has 2 members; 1 were reported"),
        (pack("p2", ("c9", 0)), "pack p2 has a member of unknown configuration c9"),
        (pack("p2", ("c0", 1)), "seed 1 of c0 is in two packs: p0 and p2"),
        (pack("p0", ("c0", 0)), "two different records plan pack p0"),
        (recut(["p0"], *HALVES), "recut: a worker has already begun pack p0"),
        (recut(["p9"], *HALVES), "recut: unknown pack p9"),
        (configuration(1, "c7"), "configuration 1 has two config_ids, c1 and c7"),
        (score(7, "c0", 0.5), "score of unknown configuration 7 (c0)"),
        (score(1, "c0", 0.5), "score of unknown configuration 1 (c0)"),
        (("score", {"number": 0}), "record of kind score has no field 'config_id'"),
    ],
)
def test_contradictions_name_their_line(record: tuple[str, dict[str, Any]], problem: str) -> None:
    with pytest.raises(DamagedLedger) as caught:
        replay(*STORY, record)
    assert problem in str(caught.value)
    assert str(caught.value).startswith("sweeps/n/events.jsonl:")


def test_a_cut_that_loses_a_member_is_damage() -> None:
    with pytest.raises(DamagedLedger, match="recut: the new packs do not have the members of the old ones"):
        replay(*STORY[:5], recut(["p0"], HALVES[0]))


def test_a_real_sweep_replays(small_sweep: SweepState) -> None:
    assert small_sweep.end_status == "complete"
    assert [configuration.number for configuration in small_sweep.configurations.values()] == list(range(6))
    assert all(
        configuration.is_scored and configuration.score is not None
        for configuration in small_sweep.configurations.values()
    )
    assert (
        sum(
            member.status == "failed"
            for configuration in small_sweep.configurations.values()
            for member in configuration.members.values()
        )
        == 1
    )
    assert {pack.status for pack in small_sweep.packs.values()} == {"complete"}
    assert view(SweepState.load(small_sweep.folder)) == view(small_sweep)


def test_a_resumed_sweep_that_reports_again_has_the_same_curves(small_sweep: SweepState) -> None:
    before = read_curves(small_sweep)
    again = [
        record for record in read_records(small_sweep.folder) if record.kind in ("evaluation", "pack_end", "score")
    ]
    with Ledger.open(small_sweep.folder) as ledger:
        ledger.append("resume", provenance={})
        for record in again:
            ledger.append(record.kind, **record.fields)
    state = SweepState.load(small_sweep.folder)
    assert state.conflicts == []
    assert read_curves(state).equals(before)
    assert np.isnan(before["value"]).any()
