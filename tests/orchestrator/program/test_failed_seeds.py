"""Seeds that diverge or crash: named with their cause, counted once, and retried by one command."""

import re
from pathlib import Path

import pytest

from orchestrator.record.files.curves import read_curves
from orchestrator.report.failure_sentences import advise_on_failures
from orchestrator.report.page.data import make_page_data
from orchestrator.results.make_summary import summarize
from orchestrator.results.seed_failures import describe_retry_start, name_seeds
from orchestrator.results.sweep_status import describe_end_status
from orchestrator.running.watching.meter import make_progress_rows
from orchestrator.running.watching.status import make_status_rows, make_trace_lines
from orchestrator.tracking.pages import make_note
from tests.command_line import CommandLine
from tests.orchestrator.program.studies import Study, script

# Seed 1 diverges at step 20, seed 2 crashes after its first report.
NAN_AND_CRASH = """
import lengthwise
run = lengthwise.member({"lr": 1.0}, steps=30, every=10)
for step in (10, 20, 30):
    loss = float("nan") if run.seed == 1 and step == 20 else 0.5
    if run.seed == 2 and step == 20:
        raise ValueError(f"bad batch with lr {run.config['lr']}")
    if run.report(step, {"acc": {5: 1.0, 10: run.config["lr"], 20: 0.1}}, loss=loss):
        break
"""


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study(tmp_path / "mine")


def test_seeds_are_grouped_and_long_lists_cut() -> None:
    assert name_seeds([("#0", 5), ("#1", 5), ("#3", 5)]) == "#0 #1 #3 seed 5"
    assert name_seeds([("#0", 0), ("#0", 1), ("#0", 2), ("#4", 1)]) == "#0 seeds 0-2, #4 seed 1"
    many = name_seeds([(f"#{number}", seed) for number in range(10) for seed in (0, 1)], 7)
    assert many.startswith("#0 #1 #2 #3 #4 #5 #6 seeds 0-1 ") and re.findall(r" \d+ ", many) == [" 6 "]


def test_failed_seeds_are_named_counted_and_retried(study: Study) -> None:
    study.write(
        NAN_AND_CRASH, program={"command": "python -S train.py"}, space={"config.lr": {"grid": [0.2, 0.5]}}, seeds=4
    )
    state = study.run()
    rows = dict(make_status_rows(state))
    assert re.findall(r"#\d+|seed \d+|loss|step \d+", rows["diverged"]) == ["#0", "#1", "seed 1", "loss", "step 20"]
    named, _, error = rows["crashed"].partition(": ")
    assert named == "#0 #1 seed 2" and error.endswith("ValueError: bad batch with lr 0.2")
    assert error.startswith("for example ")  # that of #1 has another number
    assert "continue with" not in rows
    progress = dict(make_progress_rows(state, {}, elapsed=1.0, speed=0.0, phase=""))
    assert progress["steps"].startswith("100 %")  # of the steps that are left without those of the crashed seeds

    # The end of `run`, and what MLflow shows, agree with it.
    *_, diverged, crashed, retry, _ = study.output.splitlines()
    end = state.end_message
    assert rows["diverged"] in diverged and rows["crashed"] in crashed
    command, start = rows["when fixed, retry"], rows["retry starts"]
    assert command == f"lengthwise resume {state.folder} --retry-failed --accept-code-change"
    assert f"({start})" in retry and retry.endswith(command)
    assert rows["tracebacks"] in retry
    assert re.findall(r"\d+", end) == ["0", "2", "8", "2", "2"]  # configurations, seeds, crashed, diverged
    assert [end.count(reason) for reason in ("crashed", "diverged", "but")] == [1, 1, 0]
    assert state.end_message in rows["state"] and "finished: " not in make_note(summarize(state)).lower()

    # Where they start from depends on what they have saved.
    starts = {start}
    for number, pack_id in enumerate((pack_id for pack_id, _ in state.failed_packs), start=1):
        (state.folder / "checkpoints" / pack_id / "last").touch()
        starts.add(start := describe_retry_start(state))
        assert re.findall(r"\d+", start) == (["1", "1"] if number == 1 else [])
    assert len(starts) == 3 and any(start in sentence for sentence in advise_on_failures(summarize(state)))

    # Without the option nothing is trained, and the first lines have the command.
    study.resume(state)
    first_lines = study.output.partition(f"Sweep {state.name}")[0].splitlines()
    assert first_lines[-1].endswith(command) and "nothing" in first_lines[-2] and "8 of 8" in first_lines[-2]

    # A retry counts seeds, not configurations; without checkpoints the steps of the crashed seeds are lost.
    for file in state.folder.glob("checkpoints/*/last"):
        file.unlink()
    state = study.resume(state, retry_failed=True)
    assert "6 of 8 seeds" in study.output
    (progress,) = re.findall("seeds 6/8 .*steps 75 %.*", study.output)  # with those of their reports 83 %
    assert "configurations 0/2" in progress


def test_a_sweep_whose_first_members_all_failed_has_one_command(study: Study) -> None:
    study.write(script(step="raise ValueError('always')"), seeds=4)
    rows = dict(make_status_rows(study.run()))
    assert rows["state"].startswith("interrupted") and "continue with" not in rows
    assert rows["steps"] == "0 %"
    assert rows["when fixed, retry"].split()[-2:] == ["--retry-failed", "--accept-code-change"]
    assert rows["state"].count("always") == 0 and rows["crashed"].count("always") == 1  # the error is named once
    assert "crashes" not in rows  # none was retried


@pytest.mark.parametrize("crashes", [False, True])
def test_a_score_of_nan_is_not_called_a_failure(study: Study, crashes: bool) -> None:
    report = 'run.report(step, {"acc": {5: 1.0, 10: float("nan"), 20: 0.1}})'
    crash = "run.seed == 1 and 1 / 0" if crashes else "pass"
    code = f"import lengthwise\nrun = lengthwise.member()\nfor step in (10, 20, 30):\n    {crash}\n    {report}\n"
    study.write(code, program={"command": "python -S train.py"}, seeds=2)
    state = study.run()
    summary = summarize(state)
    (row,) = summary.rows
    assert (row.has_failed, row.rank, row.seeds_failed) == (True, None, int(crashes))
    why_lost = make_page_data(summary, read_curves(state))["judged"]["why_lost"]
    texts = [row.why_unranked, describe_end_status(state), dict(make_status_rows(state))["state"], why_lost]
    assert [("failed" in text) for text in texts] == [crashes] * 4, texts
    assert state.end_status == "failed"


def test_attempts_that_printed_other_lines_have_one_cause(study: Study) -> None:
    study.write(script(step="if step == 15: raise RuntimeError('lost the block')"))  # prints the step it begins at
    state = study.run()
    rows = dict(make_status_rows(state))
    assert rows["crashes"].startswith("2 in 1 run") and "lost the block" not in rows["crashes"]
    assert "lost the block" in rows["crashed"]
    lines = make_trace_lines(state)
    assert [line.split(":")[0] for line in lines if " crashed " in line] == ["1 run crashed twice (#0 seed 0)"]
    assert sum("begins at 0" in line for line in lines) == sum("Traceback" in line for line in lines) == 1


def test_seeds_that_diverged_have_no_tracebacks(study: Study, lengthwise: CommandLine) -> None:
    study.write(script(step="step == 15 and given['seed'] == '1' and (run.failed(step), sys.exit(0))"), seeds=3)
    state = study.run()
    output = lengthwise("status", state.folder, "--trace").stdout
    (line,) = make_trace_lines(state)
    assert "1 seed diverged" in line and line.endswith(str(state.folder / "members")) and line in output


def test_the_command_for_tracebacks_is_not_beside_them(study: Study, lengthwise: CommandLine) -> None:
    study.write(script(step="1 / 0"))
    folder = study.run().folder
    with_traces, without = (lengthwise("status", folder, *words).stdout for words in (["--trace"], []))
    assert "ZeroDivisionError" in with_traces
    assert [text.count(f"status {folder} --trace") for text in (with_traces, without)] == [0, 1]


def test_the_log_of_a_stop_shows_the_script_and_the_ledger_has_all_of_it(study: Study) -> None:
    study.write(script(step="json.loads('{')"), seeds=3)
    state = study.run()
    trace = str(next(iter(state.packs.values())).traces[-1])
    shown = study.output
    assert re.search(r'^ *File "\S*/train.py", line \d+', shown, re.MULTILINE) and "JSONDecodeError: " in shown
    assert re.search(r"^ *\.\.\. [2-9] frames of python$", shown, re.MULTILINE) and "decoder.py" not in shown
    assert trace.count("decoder.py") >= 2
