"""Budgets: packs that would pass one do not start, running ones stop at an evaluation; the sweep is resumed later."""

import re

import pytest

from orchestrator.cli.options import parse_duration
from orchestrator.errors import UserError
from orchestrator.record.ledger.records import Record
from orchestrator.record.state.entities import STOPPED_BY_BUDGET
from orchestrator.record.state.state import SweepState
from orchestrator.running.driving import budget
from orchestrator.running.driving.budget import SweepBudget
from search_spaces import load_sweep
from tests.orchestrator.record.nothing_measured import NOTHING_MEASURED
from tests.orchestrator.running.ledgers import begin_ledger, keyed, sets
from tests.orchestrator.tiny_sweeps import SHORT

pytestmark = pytest.mark.usefixtures("no_reports")

TWO_IN_A_PACK = ("--set", "resources.pack=2", "--set", "resources.checkpoint_steps=null")


def state_with(folder, spec, packs):
    """The state of a sweep of one configuration with GPU packs of (members, trained steps, seconds, structure)."""
    with begin_ledger(folder, spec) as ledger:
        resolved = {"task": {}, "model": {}, "training": {}, "evaluation": {}}
        fields = {"number": 0, "config_id": "c" * 12, "values": {}, "resolved": resolved, "duplicate_of": None}
        ledger.append("configuration", **fields, **NOTHING_MEASURED)
        seed = 0
        for index, (count, step, seconds, *structure) in enumerate(packs):
            members = [["c" * 12, seed + offset] for offset in range(count)]
            seed += count
            name = f"pack{index}"
            structural_key = structure[0] if structure else "s"
            ledger.append("pack", pack_id=name, structural_key=structural_key, members=members, steps=100)
            if step:
                fields = {"file": "curves/x.parquet", "sha256": "0", "form": None, "compiled": None, "final": False}
                none = [-1] * count
                ledger.append(
                    "evaluation", pack_id=name, step=step, seconds=seconds, loss=[0.5] * count, failed_at=none, **fields
                )
    return SweepState.load(folder)


def built(tiny, tmp_path, packs, *overrides, **more):
    spec = load_sweep(tiny, overrides)
    return SweepBudget(spec, state_with(tmp_path / "it", spec, packs), **more)


def train(budget, step, seconds):
    """Record an evaluation of pack0 at this step, as during the run of the budget's driver."""
    evaluation = max(budget._state.packs["pack0"].evaluations.items())[1]
    budget._state.apply(Record(9, 0.0, "evaluation", evaluation | {"step": step, "seconds": seconds}))


def test_member_steps_count_what_is_running_in_full(tiny, tmp_path):
    packs = [(4, 50, 10.0), (4, 0, 0.0), (2, 0, 0.0)]
    for limit, fitting in ((1000, "pack1"), (800, "pack1"), (799, "pack2"), (600, "pack2"), (599, None)):
        budget = built(tiny, tmp_path / str(limit), packs, f"budget.member_steps={limit}")
        pack_id, blocking = budget.find_pack_within_budget(["pack1", "pack2"], {"pack0"})
        assert pack_id == fitting and bool(blocking) == (pack_id is None)
    assert blocking[0].text == "200 of 599 member-steps" and blocking[0].option == "--set budget.member_steps=1600"
    assert budget.list_reached_limits() == []


def test_members_that_stopped_early_use_no_more_steps(tiny, tmp_path):
    budget = built(tiny, tmp_path, [(2, 50, 10.0), (2, 0, 0.0)], "budget.member_steps=299")
    assert budget.find_pack_within_budget(["pack1"], {"pack0"})[0] is None
    pack = budget._state.packs["pack0"]

    def evaluate(step, **fields):
        budget._state.apply(Record(4, 0.0, "evaluation", pack.evaluations[50] | {"step": step, **fields}))

    evaluate(60, seconds=12.0, stopped_at=[20, -1])
    assert (pack.sum_member_steps(60), pack.sum_member_steps(100)) == (20 + 60, 20 + 100)
    assert budget.find_pack_within_budget(["pack1"], {"pack0"})[0] is None
    evaluate(100, seconds=13.0, stopped_at=[20, 60])
    assert budget.find_pack_within_budget(["pack1"], {"pack0"})[0] == "pack1"


def test_hours_are_those_of_the_pack_and_gpu_hours_of_all_packs(tiny, tmp_path):
    """A step of a member takes 0.05 s: a pack of 4 members takes 20 s, of which pack0 has 10 s left."""
    packs, now = [(4, 50, 10.0), (4, 0, 0.0)], [0.0]
    for seconds, fits in ((21.0, True), (19.0, False)):
        budget = built(
            tiny, tmp_path / f"hours{seconds}", packs, f"budget.hours={seconds / 3600}", clock=lambda: now[0]
        )
        assert (budget.find_pack_within_budget(["pack1"], {"pack0"})[0] is not None) == fits
    gpus = ("resources.gpus=0.5", "resources.scheduler=ray")
    for seconds, fits in ((21.0, True), (19.0, False)):  # (10 + 10 + 20) / 2
        budget = built(tiny, tmp_path / f"gpu{seconds}", packs, *gpus, f"budget.gpu_hours={seconds / 3600}")
        assert (budget.find_pack_within_budget(["pack1"], {"pack0"})[0] is not None) == fits
    budget = built(tiny, tmp_path / "time", packs, max_seconds=30.0, clock=lambda: now[0])
    assert budget.find_pack_within_budget(["pack1"], set())[0] and not budget.list_reached_limits()
    train(budget, 60, 12.0)
    assert budget.find_pack_within_budget(["pack1"], set())[0]
    now[0] = 11.0
    pack_id, (blocking,) = budget.find_pack_within_budget(["pack1"], set())
    assert pack_id is None and (blocking.blocked_pack_id, blocking.needed) == ("pack1", "20 s")
    now[0] = 30.0
    assert [limit.text for limit in budget.list_reached_limits()] == ["30 s of --max-time 30 s"]


def test_max_time_keeps_no_pack_from_starting_before_a_step_is_recorded(tiny, tmp_path):
    """The rest of pack0 takes 10 s and pack1 20 s: each command trains a part of the first, whatever it has used."""
    now = [0.0]
    budget = built(tiny, tmp_path, [(4, 50, 10.0), (4, 0, 0.0)], max_seconds=4.0, clock=lambda: now[0])
    now[0] = 5.0
    assert budget.find_pack_within_budget(["pack0", "pack1"], set()) == ("pack0", [])
    assert budget.find_pack_within_budget(["pack1"], {"pack0"}) == ("pack1", [])
    train(budget, 60, 12.0)
    pack_id, (blocking,) = budget.find_pack_within_budget(["pack0", "pack1"], set())
    assert pack_id is None and blocking.blocked_pack_id == "pack0"


def test_a_budget_of_the_file_keeps_the_first_pack_from_starting(tiny, tmp_path):
    budget = built(tiny, tmp_path, [(4, 50, 10.0)], "budget.member_steps=300", max_seconds=4.0, clock=lambda: 0.0)
    pack_id, (blocking,) = budget.find_pack_within_budget(["pack0"], set())
    assert pack_id is None and (blocking.blocked_pack_id, blocking.needed) == ("pack0", "200")


def test_a_short_pack_may_start_beside_a_long_one_of_a_slow_structure(tiny, tmp_path):
    """A step of a member takes 0.05 or 1 s by its structure: the short pack takes 20 s, the long one 360 s more."""
    packs = [(4, 100, 20.0, "fast"), (4, 10, 40.0, "slow"), (4, 0, 0.0, "fast")]
    for seconds, fits in ((21.0, True), (19.0, False)):
        budget_of = built(tiny, tmp_path / str(seconds), packs, f"budget.hours={seconds / 3600}", clock=lambda: 0.0)
        assert (budget_of.find_pack_within_budget(["pack2"], {"pack1"})[0] is not None) == fits


@pytest.mark.parametrize("hours", [None, 1e-9])
def test_the_limit_that_is_suggested_lets_the_pack_start_that_did_not_fit(tiny, tmp_path, hours):
    """A step of a member takes 0.05 s: the pack of 4 members takes 20 s and 400 steps."""
    packs, limit = [(1, 100, 5.0), (4, 0, 0.0)], f"budget.hours={hours}" if hours else "budget.member_steps=5"
    _, (blocking,) = built(tiny, tmp_path / "a", packs, limit, clock=lambda: 0.0).find_pack_within_budget(
        ["pack1"], set()
    )
    suggested = float(blocking.option.partition("=")[2])
    assert suggested >= 2 * 20 / 3600 if hours else suggested == 2 * (100 + 400)
    raised = built(tiny, tmp_path / "b", packs, blocking.option.removeprefix("--set "), clock=lambda: 0.0)
    assert raised.find_pack_within_budget(["pack1"], set()) == ("pack1", [])


def test_a_limit_that_stops_a_running_pack_suggests_enough_for_the_rest_of_it(tiny, tmp_path):
    """A member has trained for 10 of its 100 steps in an hour."""
    now = [0.0]
    budget = built(tiny, tmp_path, [(1, 10, 3600.0)], "budget.hours=1", clock=lambda: now[0])
    assert budget.list_reached_limits() == []
    now[0] = 3600.0
    (reached,) = budget.list_reached_limits()
    assert reached.text == "1 of 1 hours" and reached.option == "--set budget.hours=20"


def test_nothing_is_limited_without_a_budget(tiny, tmp_path):
    budget = built(tiny, tmp_path, [(4, 0, 0.0)])
    assert budget.find_pack_within_budget(["pack0"], set()) == ("pack0", []) and budget.list_reached_limits() == []


@pytest.mark.slow
def test_a_sweep_stops_by_its_member_steps_and_is_resumed_with_more(lengthwise, tiny, tmp_path, played):
    words = ("run", tiny, "--storage", tmp_path, *TWO_IN_A_PACK)
    done = lengthwise(*words, "--set", "budget.member_steps=300")
    folder = tmp_path / "tiny"
    assert done.returncode == 0, done.stderr
    resume = f"lengthwise resume {folder} --set budget.member_steps=720"
    blocked = [pack_id for pack_id, pack in SweepState.load(folder).packs.items() if pack.status == "planned"]
    stopped = "240 of 300 member-steps used, and the next pack ({}) needs 120; 2 of 4 configurations done"
    assert any(stopped.format(pack_id) in done.stdout for pack_id in blocked), done.stdout
    assert "stopped by its budget: " in done.stdout and f" continue with: {resume}" in done.stdout
    assert lengthwise("status", folder).stdout.count("lengthwise resume") == 1
    assert "stopped by its budget" in lengthwise("status", folder).stdout
    state = SweepState.load(folder)
    assert sum(pack.status == "complete" for pack in state.packs.values()) == 2
    spec = load_sweep(folder / "sweep.yaml")
    assert spec.spec_hash == load_sweep(tiny).spec_hash
    again = lengthwise("resume", folder)
    assert again.returncode == 0 and "stopped by its budget" in again.stdout
    finished = lengthwise("resume", folder, "--set", "budget.member_steps=1e6")
    assert finished.returncode == 0 and SweepState.load(folder).end_status == "complete"
    assert keyed(folder).equals(keyed(played()))


@pytest.mark.slow
def test_running_packs_stop_at_their_next_evaluation_with_a_checkpoint(lengthwise, tiny, tmp_path, monkeypatch):
    """The time is over when the second evaluation of the first pack has been recorded."""
    words = ("run", tiny, "--storage", tmp_path, *TWO_IN_A_PACK)
    original, calls = budget.SweepBudget.list_reached_limits, []

    def list_reached_limits(self):
        limits, evaluations = original(self), sum(len(pack.evaluations) for pack in self._state.packs.values())
        if calls or evaluations != 2:
            return limits
        calls.append(self)
        return [budget.Limit(used_after=61.0, allowed=60.0, text="61 s of --max-time 60 s")]

    monkeypatch.setattr(budget.SweepBudget, "list_reached_limits", list_reached_limits)
    done = lengthwise.succeeds(*words, "--max-time", "1m")
    folder = tmp_path / "tiny"
    stopped = "61 s of --max-time 60 s used; 0 of 4 configurations done; continue with: "
    assert f"stopped by its budget: {stopped}" in done.stdout
    assert done.stdout.rstrip().endswith(f"lengthwise resume {folder}")
    packs = SweepState.load(folder).packs
    (running,) = (pack for pack in packs.values() if pack.status == "running")
    assert running.step == 40 and not running.attempts
    saved = [path.name for path in (folder / "checkpoints" / running.pack_id).iterdir()]
    assert saved == ["step-000000000040.ckpt"]
    assert not (folder / "checkpoints" / "stop").exists()
    lengthwise.succeeds("extend", folder, "--seeds", "3")
    assert lengthwise(*words, "--name", "larger", "--set", "seeds=3").returncode == 0
    assert keyed(folder).equals(keyed(tmp_path / "larger"))


def test_a_stopped_sweep_says_how_many_seeds_are_done(lengthwise, tiny, tmp_path):
    """Its budget is that of one pack: both seeds of one of two configurations."""
    small = ("--set", "search.configurations=2", "--set", "seeds=2", "--set", "budget.member_steps=120")
    lengthwise.succeeds("run", tiny, "--storage", tmp_path, *TWO_IN_A_PACK, *small)
    assert (
        re.search(r"^seeds +(\S+)$", lengthwise.succeeds("status", tmp_path / "tiny").stdout, re.MULTILINE)[1] == "2/4"
    )
    for done, limit in ((2, 120), (2, 240), (4, 240)):
        resumed = lengthwise.succeeds("resume", tmp_path / "tiny", "--set", f"budget.member_steps={limit}").stdout
        assert re.search(r"(\d+) of (\d+) seeds", resumed).groups() == (str(done), "4")


def test_a_confirmation_stops_after_its_time_and_is_resumed(lengthwise, tiny, tmp_path):
    """A millisecond is over before the first evaluation, so the confirmation trains up to that one."""
    lengthwise.succeeds("run", tiny, "--storage", tmp_path, *sets(*SHORT))
    folder = tmp_path / "tiny-confirm"
    lengthwise.succeeds("confirm", tmp_path / "tiny", "--top", "1", "--seeds", "1", "--max-time", "0.001s")
    state = SweepState.load(folder)
    assert (state.end_status, [list(pack.evaluations) for pack in state.packs.values()]) == (STOPPED_BY_BUDGET, [[4]])
    lengthwise.succeeds("resume", folder)
    assert SweepState.load(folder).end_status == "complete"


@pytest.mark.slow
def test_commands_that_are_shorter_than_every_pack_complete_the_sweep(lengthwise, tiny, tmp_path, played, monkeypatch):
    """The time is over before the first evaluation: each command trains up to the next one."""
    monkeypatch.setattr(SweepBudget, "list_reached_limits", SweepBudget.list_reached_limits)  # restored
    exec(TIME_FLIES, {})
    few = "search.configurations=2"
    words = ("run", tiny, "--storage", tmp_path, *TWO_IN_A_PACK, "--set", few)
    folder = tmp_path / "tiny"
    lengthwise.succeeds(*words, "--max-time", "0.001s")
    trained = [SweepState.load(folder).trained.member_steps]
    while SweepState.load(folder).end_status != "complete":
        done = lengthwise("resume", folder, "--max-time", "0.001s")
        trained.append(SweepState.load(folder).trained.member_steps)
        assert done.returncode == 0 and trained[-1] > trained[-2], done.stdout
    assert len(trained) > 2  # packs
    assert keyed(folder).equals(keyed(played(few)))


TIME_FLIES = """
from orchestrator.running.driving.budget import SweepBudget

list_reached_limits = SweepBudget.list_reached_limits

def used_up_after_an_evaluation(self):
    if any(pack.step for pack in self._state.packs.values()):
        self._clock = lambda: self._began_at + 7200.0
    return list_reached_limits(self)

SweepBudget.list_reached_limits = used_up_after_an_evaluation
"""
COMMAND = "from orchestrator.__main__ import command; command()"


@pytest.mark.slow
def test_workers_stop_and_are_resumed(lengthwise, tiny, tmp_path):
    """The time is over when the first evaluation has been recorded, long before the end of its pack."""
    long = ("--set", "training.steps=30000", "--set", "evaluation.every=30")
    words = ("run", tiny, "--storage", tmp_path, *long, "--set", "resources.scheduler=local")
    done = lengthwise.process(*words, "--max-time", "1h", program=TIME_FLIES + COMMAND)
    assert done.returncode == 0, done.stderr
    assert "stopped by its budget" in done.stdout
    packs = SweepState.load(tmp_path / "tiny").packs.values()
    running = [pack for pack in packs if pack.status == "running"]
    assert running and not any(pack.attempts for pack in packs)
    for pack in running:
        newest = max((tmp_path / "tiny" / "checkpoints" / pack.pack_id).glob("step-*.ckpt"))
        assert int(newest.stem.removeprefix("step-")) == pack.step


@pytest.mark.parametrize(
    ("text", "seconds"), [("30m", 1800), ("1h30m", 5400), ("90s", 90), ("0.5h", 1800), (None, None)]
)
def test_times_are_read(text, seconds):
    assert parse_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "m", "1m1h", "-1m", "0m", "soon", "9" * 400 + "h"])
def test_what_is_no_time_is_refused(text):
    with pytest.raises(UserError, match="allowed: hours, minutes and seconds such as 2h, 1h30m or 90s"):
        parse_duration(text)


def test_plan_says_what_a_budget_has_no_room_for(lengthwise, tiny):
    output = lengthwise("plan", tiny, "--set", "budget={member_steps: 120, hours: 1000}").stdout
    (warning,) = [line for line in output.splitlines() if "budget." in line]
    assert {"120", "480"} <= set(warning.replace(":", "").split()) and "budget.member_steps" in warning
    wrong = lengthwise("validate", tiny, "--set", "budget={hours: 0, days: 3}")
    assert wrong.returncode == 2 and "budget.hours: is out of bounds; given 0; allowed: above 0" in wrong.stderr
    assert "budget.days" in wrong.stderr
