"""Functions as programs: how they end, and how they are stopped; first failures that are alike stop the sweep."""

import re
from contextlib import nullcontext

import pytest

from orchestrator.record.state.state import SweepState
from orchestrator.running.driving.equal_failures import EqualFailures, refuse_equal_failures
from tests.orchestrator.program.studies import Study, assert_equal_curves, script

LOOP = """
def train(config, seed, report, checkpoints):
    for step in range(1, 31):
        {step}
        if step % 10 == 0 and report(step, {{"acc": {{5: step + seed, 10: 0.5, 20: {value}}}}}, loss=0.1):
            return
    {end}
"""


def run(study: Study, step: str = "pass", value: str = "0.1", end: str = "pass", **changes: object) -> SweepState:
    study.write(program={"function": "mine.train"}, **changes)
    (study.folder / "mine.py").write_text(LOOP.format(step=step, value=value, end=end))
    return study.run()


@pytest.mark.parametrize(
    ("code", "steps", "error"),
    [
        ("step == 25 and 1 / 0", [10, 20], ["ZeroDivisionError", "mine.py:4"]),
        ("step == 25 and exit(3)", [10, 20], ["SystemExit", "3"]),
        ("if step == 25: return", [10, 20], ["step 20 of 30", "last report"]),
        ("step == 15 and report(15, {'ac': 1})", [10], ["attempt-1.jsonl:2", "'ac'", "'acc'", "mine.py:4"]),
        ("step == 15 and report(15, {'acc': {7: 1}})", [10], ["attempt-1.jsonl:2", "7", "5, 10, 20"]),
        ("step == 15 and report(15, {'acc': {5: 'x'}})", [10], ["ReportError", "acc", "mine.py:4"]),
        ("if step == 20: continue", [10], ["step 30", "step 20"]),
    ],
)
def test_function_that_fails(code: str, steps: list[int], error: list[str], study: Study, own_code_forgotten) -> None:
    (pack,) = run(study, code).packs.values()
    assert (pack.status, len(pack.attempts), list(pack.evaluations)) == ("failed", 1, steps), pack.error
    assert all(word in str(pack.error) for word in error), pack.error


def test_nan_at_the_end_diverges(study: Study, own_code_forgotten) -> None:
    changes = {"evaluation__metrics": {"acc": {"direction": "maximize", "lengths": [20]}}, "objective__lengths": [20]}
    loop = LOOP.replace("5: step + seed, 10: 0.5, ", "")
    study.write(program={"function": "mine.train"}, **changes)
    (study.folder / "mine.py").write_text(loop.format(step="pass", value="float('nan')", end="pass"))
    (pack,) = study.run().packs.values()
    assert (pack.status, pack.member_states[0].failed_at) == ("complete", 30)


@pytest.mark.parametrize(("code", "differs"), [("'no data ' + given['seed']", True), ("'no data'", False)])
def test_errors_that_differ_in_numbers_are_not_called_the_same(code: str, differs: bool, study: Study) -> None:
    study.write(script(step=f"step == 5 and sys.exit({code})"), seeds=3)
    study.run()
    first, again, *others = [line for line in study.output.splitlines() if re.match(r"#\d+ seed \d+: ", line)]
    assert "no data" in first and "numbers" not in first + again
    assert [("numbers" in line) for line in others] == [differs] * 4
    assert "pack" not in study.output  # whose hash says nothing of a script
    assert re.search(rf"same error{' .*numbers' if differs else ''}, so the sweep", study.output)


@pytest.mark.parametrize("at", ["step == 5", "step == 25"])
def test_first_failures_alike_stop_the_sweep(at: str, study: Study) -> None:
    """Unless another has reported a later step; also if the message names the file of the member."""
    for name, code in {
        "exit": f"{at} and sys.exit('no such data')",
        "nonsense": f"{at} and run._write_report({{'step': step, 'curves': {{'ac': 1}}}})",
    }.items():
        study.write(script(step=code), seeds=4)
        state = study.run(name=f"{name}-{at[-1]}")
        ended = [pack for pack in state.packs.values() if pack.has_ended]
        assert len(ended) == 3, study.output
        shown = [line for line in study.output.splitlines() if re.match(r"#\d+ seed \d+: ", line)]
        saved = {"checkpoint" in line for line in shown if "retrying" in line}
        assert saved == ({at != "step == 5"} if name == "exit" else set())
        assert sum("no such data" in line or "'ac'" in line for line in shown) == 1
        assert "--retry-failed" in study.output and ("no such data" in study.output or "'ac'" in study.output)
        assert state.end_status == "interrupted"
        assert str(state.end_message).count("seeds failed with the same error") == 1

        # Another seed that has come as far shows nothing; one that has come further does.
        (open_pack,) = [pack for pack in state.packs.values() if not pack.has_ended]
        for step in (ended[0].step, ended[0].step + 10):
            open_pack.step, open_pack.evaluations[step] = step, {}
            with nullcontext() if step > ended[0].step else pytest.raises(EqualFailures):
                refuse_equal_failures(state, 3)

        # A resumed sweep says why it stopped, and that it stops again; what was mended is no news.
        if (at, name) == ("step == 5", "nonsense"):
            continue  # each step and each error is mended once
        if at == "step == 5":
            study.resume(state)
            assert study.output.count("seeds failed with the same error") == 2
        study.write(seeds=4)
        state = study.resume(state, retry_failed=True, accept_code_change=True)
        assert (state.end_status, state.failed_packs) == ("complete", []), study.output
        assert "no such data" not in study.output and "'ac'" not in study.output


def test_killed_between_the_averages_of_a_step(study: Study) -> None:
    """The next attempt reports the step again with all of them."""
    code = """
import os, lengthwise
run = lengthwise.member()
first = run.reported == 0
for step in (10, 20, 30):
    run.report(step, {"acc": {5: step / 7}}, loss=step)
    if FAILS and first and step == 20:
        os.kill(os.getpid(), 9)
    run.report(step, {"acc": {5: step / 3}}, average="ema")
"""
    changes = {"evaluation__averages": ["raw", "ema"], "evaluation__lengths": [5], "objective__average": "ema"}
    changes |= {"objective__lengths": [5]}
    study.write(f"FAILS = True\n{code}", **changes)
    state = study.run()
    study.write(f"FAILS = False\n{code}", **changes)
    assert_equal_curves(state, study.run(name="unbroken"))
    (folder,) = (state.folder / "members").iterdir()
    assert [len(path.read_text().splitlines()) for path in sorted(folder.glob("*.jsonl"))] == [3, 6]


def test_function_is_asked_to_stop_by_used_up_time(study: Study, own_code_forgotten) -> None:
    study.write(program={"function": "mine.train"})
    code = LOOP.format(step="step == 10 and __import__('time').sleep(0.7)", value="0.1", end="pass")
    (study.folder / "mine.py").write_text(code)
    state = study.run(max_seconds=0.5)
    (pack,) = state.packs.values()
    assert (state.end_status, pack.attempts, list(pack.evaluations)) == ("stopped by its budget", [], [10])
    assert study.resume(state).end_status == "complete"
