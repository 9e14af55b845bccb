"""Every way a program can end by itself: the status of its member, the last message, and the number of deaths."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from orchestrator.record.state.entities import PackState
from tests.no_reports import leave_out_reports
from tests.orchestrator.program.studies import Study, script

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="ends are tested with a subreaper")

KILL = "os.kill(os.getpid(), 9)"
IDLE_RESTARTS = 3  # so often it may ask to be started again without a new step
FIRST = "run.reported == 0"  # in the first attempt


@dataclass(frozen=True)
class End:
    """What a program does, and what comes of it: `error` has words of the last message."""

    step: str = "pass"
    reported: str = "pass"
    end: str = ""
    status: str = "complete"
    deaths: int = 0
    steps: tuple[int, ...] = (10, 20, 30)
    failed_at: int | None = None
    stopped_at: int | None = None
    error: tuple[str, ...] = ()


def report(text: str, step: int = 10) -> str:
    return f"step == {step} and run._write_report({text})"


ENDS = {
    "complete": End(),
    "exit code after the last report": End(end="sys.exit(3)"),
    "exit code 0 early": End(
        step="step == 25 and sys.exit(0)", status="failed", deaths=1, steps=(10, 20), error=("step 20 of 30",)
    ),
    "exit code 0 without any report": End(
        step="sys.exit(0)", status="failed", deaths=1, steps=(), error=("run.report()", "${reports}")
    ),
    "exit code after a new step": End(reported=f"step == 20 and {FIRST} and sys.exit(7)", deaths=1),
    "exit code without a new step": End(
        step="step == 25 and sys.exit(7)", status="failed", deaths=2, steps=(10, 20), error=("exit code 7", "step 20")
    ),
    "a command line that it does not understand": End(
        step="step == 5 and sys.exit(2)", status="failed", deaths=1, steps=(), error=("exit code 2",)
    ),
    "exception": End(
        step="step == 5 and 1 / 0", status="failed", deaths=1, steps=(), error=("exit code 1", "ZeroDivisionError")
    ),
    "an exception by the state of the machine": End(
        step="step == 5 and open('/missing')", status="failed", deaths=2, steps=(), error=("FileNotFoundError",)
    ),
    "an exception of the GPU": End(
        "if step == 5: raise RuntimeError('CUDA error: device busy')",
        status="failed", deaths=2, steps=(), error=("CUDA error",),
    ),
    "exception once before the first report": End(
        step="step == 5 and not os.path.exists(kept) and (kept.write_text('[5, 7]'), os.mkdir('/tmp'))", deaths=1
    ),
    "exception of several lines": End(
        "if step == 5: raise ValueError('first\\n[second]')",
        status="failed", deaths=1, steps=(), error=("exit code 1", "ValueError: first"),
    ),
    "killed once": End(step=f"step == 15 and {FIRST} and {KILL}", deaths=1),
    "killed always": End(step=f"step == 15 and {KILL}", status="failed", deaths=3, steps=(10,), error=("signal 9",)),
    "NaN at the last step": End(step="value = value if step < 30 else float('nan')", failed_at=30),
    "NaN before": End(step="share = 0"),
    "failed": End(step="step == 14 and (run.failed(step), sys.exit(0))", failed_at=14),
    "failed, then an exit code": End(step="step == 14 and (run.failed(step), sys.exit(1))", failed_at=14),
    "a loss of NaN": End(step="step == 14 and run.report(14, {}, loss=float('nan')) and sys.exit(0)", failed_at=14),
    "failed before any report": End(step="step == 4 and (run.failed(step), sys.exit(0))", failed_at=4),
    "failed after the last report": End(end="run.failed(30)"),
    "the last report again": End(end="run.report(30, {'acc': {10: 0.5}})"),
    "stopped": End(step="step == 24 and (run.stopped(step), sys.exit(0))", stopped_at=24),
    "stopped before any report": End(
        step="step == 4 and (run.stopped(step), sys.exit(0))", status="failed", deaths=1, steps=(), error=(":1:", "4")
    ),
    "unknown metric": End(
        report("{'step': 10, 'curves': {'ac': 1}}"),
        status="failed", deaths=1, steps=(), error=(".jsonl:1:", "'ac'", "'acc'", "evaluation.metrics"),
    ),
    "undeclared length": End(
        report("{'step': 20, 'curves': {'acc': {'7': 1}}}", 20),
        status="failed", deaths=1, steps=(10,), error=(".jsonl:2:", "7", "5, 10, 20", "evaluation.lengths"),
    ),
    "a judged length missing": End(
        report("{'step': 10, 'curves': {'acc': {'5': 1, '20': 1}}}"),
        status="failed", deaths=1, steps=(), error=(".jsonl:1:", "acc", "10"),
    ),
    "a step backwards": End(
        report("{'step': 10, 'curves': {}}", 25),
        status="failed", deaths=1, steps=(10, 20), error=(".jsonl:3:", "10", "20"),
    ),
    "an unknown metric at the line of the program": End(
        "step == 20 and (kept.write_text('[20, 7]'), run.report(20, {'ac': 1}))",
        status="failed", deaths=1, steps=(10,), error=("train.py:", "'ac'", "'acc'?", "evaluation.metrics"),
    ),
    "an undeclared length at the line of the program": End(
        "step == 10 and run.report(10, {'acc': {7: 1}})",
        status="failed", deaths=1, steps=(), error=("train.py:", "acc", "7", "5, 10, 20", "evaluation.lengths"),
    ),
    "asked to be started again after a wrong report": End(
        f"if step == 15 and {FIRST}:\n"
        "    try: run.report(15, {'ac': 1})\n"
        "    except ValueError: import traceback; traceback.print_exc(); sys.exit(75)"
    ),
    "a list in place of a curve": End(
        "step == 10 and run.report(10, {'acc': [0.5, 0.25]})",
        status="failed", deaths=1, steps=(), error=("train.py:", "acc", "[0.5, 0.25]"),
    ),
    "an unknown metric and no checkpoints": End(
        "step == 10 and (__import__('shutil').rmtree(kept.parent), "
        "run._write_report({'step': 10, 'curves': {'ac': 1}}), time.sleep(1))",
        status="failed", deaths=1, steps=(), error=(".jsonl:1:", "'ac'"),
    ),
    "not JSON": End(
        "step == 10 and open(os.environ['LENGTHWISE_REPORTS'], 'a').write('acc=1\\n')",
        status="failed", deaths=1, steps=(), error=(".jsonl:1:", "JSON", "acc=1"),
    ),
    "a due step skipped": End(
        step="step == 20 and (step := 21)", status="failed", deaths=1, steps=(10,), error=(".jsonl:2:", "30", "20")
    ),
    "asked to be started again": End(step=f"step == 15 and {FIRST} and sys.exit(75)"),
    "asked to be started again without a new step": End(
        step="step == 15 and sys.exit(75)",
        status="failed", deaths=1, steps=(10,), error=(f"{IDLE_RESTARTS + 1} restarts",),
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def packs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, PackState]:
    """The pack of each end, all of one sweep."""
    study = Study(tmp_path_factory.mktemp("ends") / "study")
    hooks = {name: (end.step, end.reported, end.end) for name, end in ENDS.items()}
    code = script(*(f"exec(hooks[given['name']][{hook}])" for hook in range(3)))
    study.write(f"hooks = {hooks!r}\n{code}", space={"config.name": {"grid": list(ENDS)}}, config={"lr": 0.5})
    with leave_out_reports(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("orchestrator.program.member_run._MAX_IDLE_RESTARTS", IDLE_RESTARTS)
        state = study.run()
    names = {
        configuration.config_id: configuration.values["config.name"] for configuration in state.configurations.values()
    }
    return {names[pack.members[0][0]]: pack for pack in state.packs.values()}


@pytest.mark.parametrize("name", ENDS)
def test_end(name: str, packs: Mapping[str, PackState]) -> None:
    expected, pack = ENDS[name], packs[name]
    ended = (pack.status, len(pack.attempts), tuple(pack.evaluations))
    assert ended == (expected.status, expected.deaths, expected.steps), (pack.attempts, pack.traces)
    (member,) = pack.member_states
    assert (member.failed_at, member.stopped_at) == (expected.failed_at, expected.stopped_at)
    assert all(word in (pack.error or "") for word in expected.error), pack.error


def test_traceback_of_a_wrong_metric_has_the_line_of_the_program(packs: Mapping[str, PackState]) -> None:
    pack = packs["an unknown metric at the line of the program"]
    trace = pack.traces[-1]
    assert "train.py" in trace and "lengthwise.ReportError: " in trace and "lengthwise.py" not in trace
