"""How the end of a pack is worded, kept and shown, and what Ray is given then; and the tracebacks of the ledger."""

import linecache
import re
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from ray.exceptions import ActorUnavailableError, RayActorError
from ray.tune.search import Searcher

from orchestrator.program.exit_causes import ProgramEnded
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.state.state import SweepState
from orchestrator.running.pack import train_pack as trainable
from orchestrator.running.pack.retries import MAX_TRACE, Death, Retries, make_death
from orchestrator.running.pack.train_pack import PackRaised, train_pack_on_ray
from orchestrator.running.watching.status import NO_TRACE, make_trace_lines
from orchestrator.running.with_ray import tune
from orchestrator.running.with_ray.tune import PackSearcher, TuneEventCallback
from tests.orchestrator.running.deaths import RecordingDriver, empty_work


@dataclass
class SimpleProgress:
    """What a pack reports between evaluations, with its step alone."""

    step: int


MINE = "/home/me/study/my_tasks.py"


def raised_in_mine(error: BaseException) -> BaseException:
    """The exception, raised by code that claims to stand in my module."""
    source = "def score(error):\n    raise error\n"
    linecache.cache[MINE] = len(source), None, source.splitlines(True), MINE
    names: dict[str, Any] = {}
    exec(compile(source, MINE, "exec"), names)
    try:
        names["score"](error)
    except BaseException as caught:
        return caught
    raise AssertionError


@pytest.mark.parametrize(
    ("error", "retry"),
    [
        (ValueError("no"), "never"),
        (KeyError("loss"), "never"),
        (RuntimeError("shapes differ"), "never"),
        (OSError("the file system is away"), "once"),
        (MemoryError(), "once"),
    ],
)
def test_exceptions_of_user_code_are_not_retried_unless_the_machine_raised_them(error: Exception, retry: str) -> None:
    death = make_death(raised_in_mine(error), user_files={MINE})
    assert death.retry == retry
    assert f"{type(error).__name__}" in death.message and f"({MINE}:2)" in death.message
    assert death.trace is not None and "raise error" in death.trace
    assert make_death(raised_in_mine(error), user_files={"/home/me/study/others.py"}).retry == "once"


def test_the_file_that_the_user_edits_is_named_instead_of_its_copy() -> None:
    copies = {MINE: "/home/me/own/my_tasks.py"}
    for error in (raised_in_mine(ValueError("no")), ProgramEnded(f"exit code 1: {MINE}:2", f'File "{MINE}"', "never")):
        death = make_death(error, {MINE}, copies)
        assert "/home/me/own/my_tasks.py:2" in death.message and '"/home/me/own/my_tasks.py"' in str(death.trace)
        assert MINE not in f"{death.message}{death.trace}"


def torch_error_of_the_cpu() -> Exception:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(10**15)
    return caught.value


@pytest.mark.parametrize(
    "error", [MemoryError("no room"), torch.OutOfMemoryError("CUDA out of memory"), torch_error_of_the_cpu()]
)
def test_a_smaller_pack_may_succeed_where_memory_ran_out(error: Exception) -> None:
    death = make_death(raised_in_mine(error))
    assert death.retry == "once" and death.out_of_memory
    assert not make_death(raised_in_mine(ValueError("no room"))).out_of_memory


def test_of_a_long_traceback_the_end_is_kept() -> None:
    death = make_death(raised_in_mine(ValueError("x" * MAX_TRACE + "the end")))
    assert death.trace is not None and len(death.trace) == MAX_TRACE and death.trace.endswith("the end\n")


@pytest.mark.parametrize("is_own", [True, False])
def test_under_ray_an_exception_of_ones_own_code_ends_the_pack_and_another_is_raised_as_text(
    tmp_path, monkeypatch, is_own: bool
) -> None:
    def train_pack(work: Any, reporter: Any) -> None:
        reporter.notice("slow import")
        raise raised_in_mine(ValueError("the seventh word is missing"))

    reported: list[dict[str, Any]] = []
    monkeypatch.setattr(trainable, "train_pack", train_pack)
    monkeypatch.setattr(trainable, "list_imported_files", lambda code: {MINE} if is_own else set())
    monkeypatch.setattr("ray.tune.report", reported.append)
    work = empty_work(tmp_path, modules=[])
    driver = RecordingDriver()
    if not is_own:
        with pytest.raises(PackRaised) as caught:
            train_pack_on_ray({"pack_id": "p1", "work": work})
        assert caught.value.message.startswith("ValueError: the seventh") and "in score" in caught.value.trace
        (report,) = reported
        assert report["messages"] == [("notice", "slow import")]  # a retry does not lose what was said before
        assert report["death"]["retry"] == "once" and report["death"]["message"] == caught.value.message
        return
    train_pack_on_ray({"pack_id": "p1", "work": work})
    recorder, pack = (
        TuneEventCallback(driver, SimpleNamespace(), Retries(2)),
        SimpleNamespace(config={"pack_id": "p1", "work": work}),
    )
    recorder.on_trial_result(1, [], pack, reported[0])
    recorder.on_trial_complete(2, [], pack)
    name, pack_id, message, trace = driver.calls[-1]
    assert (
        (name, pack_id) == ("on_failure", "p1")
        and message.startswith("ValueError: the seventh")
        and "in score" in trace
    )


def test_under_ray_a_sentence_after_the_last_report_of_a_pack_reaches_the_driver(tmp_path, monkeypatch) -> None:
    def train_pack(work: Any, reporter: Any) -> None:
        reporter.progress(SimpleProgress(step=7))
        reporter.notice("its newest checkpoint was not copied")

    reported: list[dict[str, Any]] = []
    monkeypatch.setattr(trainable, "train_pack", train_pack)
    monkeypatch.setattr("ray.tune.report", reported.append)
    train_pack_on_ray({"work": empty_work(tmp_path, modules=[])})
    sent = [message for report in reported for message in report["messages"]]
    assert sent == [("progress", {"step": 7}), ("notice", "its newest checkpoint was not copied")]


KILLED, ERROR = Death(message="killed", retry="always"), Death(message="ValueError: no")
OWN_ERROR = Death(message="ValueError: mine", retry="never")


@pytest.mark.parametrize(
    ("deaths", "again"),
    [
        ([KILLED] * 4, [True, True, True, False]),
        ([ERROR] * 2, [True, False]),
        ([KILLED, ERROR, ERROR], [True, True, False]),
        ([ERROR, KILLED, KILLED, KILLED], [True, True, True, False]),
        ([ERROR, KILLED, ERROR], [True, True, False]),
        ([KILLED, OWN_ERROR], [True, False]),
        ([OWN_ERROR], [False]),
    ],
)
def test_a_killed_pack_is_tried_as_often_as_allowed_and_one_that_raises_once_more(deaths, again) -> None:
    policy = Retries(3)
    assert [policy.decide_retry("p1", death) for death in deaths] == again
    assert policy.decide_retry("p2", ERROR) and not Retries(0).decide_retry("p1", KILLED)


NODE = "The actor died because its node has died. Node Id: 1"
WORKER = "The actor is dead because its worker process has died."


@pytest.mark.parametrize(
    ("error", "lost"),
    [
        (RayActorError(error_msg=NODE), True),
        (ActorUnavailableError("Socket closed", None), True),
        (RayActorError(error_msg=WORKER), False),
        (None, False),
    ],
)
def test_a_lost_node_is_not_one_of_the_retries(monkeypatch, error, lost) -> None:
    """As Tune counts: after `max_failures` it asks for no further retry."""
    driver = RecordingDriver()
    recorder: Any = TuneEventCallback(driver, SimpleNamespace(), Retries(2))
    monkeypatch.setattr(tune, "_read_error", lambda trial: error)
    trial = SimpleNamespace(config={"pack_id": "p1"}, max_failures=2, run_metadata=SimpleNamespace(num_failures=0))
    for failures in range(1, 50):
        trial.run_metadata.num_failures = failures
        if failures > trial.max_failures:
            break
        recorder.on_trial_recover(1, [], trial)
    assert failures == 3 + (tune.MAX_LOST_NODES if lost else 0)
    assert all(("with its node" in message) == lost for _, _, message, _ in driver.calls)


@pytest.mark.parametrize(
    ("deaths", "failures"),
    [
        ([ERROR, ERROR], 2),
        ([ERROR, KILLED, KILLED, KILLED], 4),
        ([KILLED, ERROR, KILLED, ERROR], 4),
        ([ERROR, KILLED, ERROR], 3),
    ],
)
def test_under_ray_a_pack_ends_at_its_second_exception_and_not_at_a_kill_after_the_first(
    monkeypatch, deaths, failures
) -> None:
    """As Tune calls: the result that a worker reports comes first, then its failure, which counts."""
    driver = RecordingDriver()
    recorder: Any = TuneEventCallback(driver, SimpleNamespace(), Retries(3))
    trial = SimpleNamespace(config={"pack_id": "p1"}, max_failures=3)
    for number, death in enumerate(deaths, 1):
        if death is not KILLED:
            recorder.on_trial_result(1, [], trial, {"messages": [], "death": asdict(death)})
        error = None if death is KILLED else PackRaised(death.message, death.trace, death.retry)
        monkeypatch.setattr(tune, "_read_error", lambda trial, error=error: error)
        monkeypatch.setattr(tune, "make_ray_death", lambda error, death=death: death)
        if number > trial.max_failures:
            break
        recorder.on_trial_recover(1, [], trial)
    assert number == failures and trial.max_failures < number


def test_tracebacks_are_shown_once_each_with_the_packs_they_ended(tmp_path, synthetic_sweep, simple_curve) -> None:
    values = [{"model.norm": "none"}, {"model.norm": "pre"}]
    folder = tmp_path / "dying"
    state = synthetic_sweep(folder, values, 1, simple_curve, ended=False)
    (line,) = make_trace_lines(state)
    assert line.startswith("no tracebacks") and not re.search(r"\d", line)
    first, second = list(state.packs)[:2] if len(state.packs) > 1 else [*state.packs] * 2
    with Ledger.open(folder) as ledger:
        for line, pack_id in enumerate((first, second)):
            trace = f"Traceback, line {line}:\n  mine\n"
            ledger.append("attempt", pack_id=pack_id, attempt=1, error=f"ValueError: no {line}", trace=trace)
        ledger.append("attempt", pack_id=first, attempt=2, error="killed")
    lines = make_trace_lines(SweepState.load(folder))
    assert lines.count("  mine") == 1 and NO_TRACE in lines
    assert any(line.endswith("ValueError: no 0") and " crashed " in line for line in lines)
    assert lines[-2:] == [f"1 pack crashed ({first} with #0 seed 0): killed", NO_TRACE]


@pytest.mark.parametrize(
    ("attempts", "beginning"),
    [
        ({0: 1}, "1 pack crashed ("),
        ({0: 3}, "1 pack crashed 3 times ("),
        ({0: 2, 1: 2}, "2 packs crashed twice each ("),
        ({0: 2, 1: 1}, "2 packs crashed 3 times in all ("),
    ],
)
def test_crashes_of_one_cause_are_counted_by_pack(tmp_path, synthetic_sweep, simple_curve, attempts, beginning):
    values = [{"model.norm": "none"}, {"model.norm": "pre"}]
    state = synthetic_sweep(tmp_path / "dying", values, 1, simple_curve, ended=False)
    packs = list(state.packs)
    with Ledger.open(state.folder) as ledger:
        for number, count in attempts.items():
            for attempt in range(count):
                ledger.append("attempt", pack_id=packs[number], attempt=attempt + 1, error="killed")
    line = make_trace_lines(SweepState.load(state.folder))[1]
    assert line == f"{beginning}{', '.join(f'{packs[number]} with #{number} seed 0' for number in attempts)}): killed"


def test_another_pack_is_handed_to_ray_when_one_has_ended() -> None:
    driver: Any = RecordingDriver("a", "b", "c", work="work")
    workers: Any = SimpleNamespace(count=2)
    searcher = PackSearcher(driver, workers)
    assert [searcher.suggest(name) for name in ("t1", "t2")] == [
        {"pack_id": pack_id, "work": "work"} for pack_id in "ab"
    ]
    assert searcher.suggest("t3") is None
    searcher.on_trial_complete("t1", error=True)
    assert searcher.suggest("t3") == {"pack_id": "c", "work": "work"}
    searcher.on_trial_complete("t2")
    assert searcher.suggest("t4") is None  # "c" may run out of memory: then smaller packs take its place
    searcher.on_trial_complete("t3")
    assert searcher.suggest("t4") == Searcher.FINISHED
