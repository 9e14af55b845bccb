"""A disk that fills up while a program runs interrupts the sweep; no member fails, and no report is lost."""

import pytest

from orchestrator.record.state.state import SweepState
from tests.no_reports import leave_out_reports
from tests.orchestrator.machine.test_full_disk import files_no_larger_than
from tests.orchestrator.program.studies import Study, assert_equal_curves, script

HOOK = "step == 15 and exec(hook)"
FULL = {  # by the file that does not fit
    "checkpoint": "(run.checkpoints / 'weights').write_bytes(bytes(400_000))",
    "log": "print('x' * 400_000, flush=True)",
    "reports": "open(os.environ['LENGTHWISE_REPORTS'], 'a').write(' ' * 400_000 + '\\n')",
    "a file elsewhere": "os.write(os.open('/dev/full', os.O_WRONLY), b'x')",  # on a disk that is really full
    "ignored": "os.system('head -c 400000 /dev/zero >$LENGTHWISE_FOLDER/big'), sys.exit(0)",
    "killed": "signal.signal(signal.SIGXFSZ, signal.SIG_DFL), (run.checkpoints / 'w').write_bytes(bytes(400_000))",
}


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> SweepState:
    """The sweep on a disk with room."""
    study = Study(tmp_path_factory.mktemp("unbroken") / "study")
    study.write(seeds=2)
    with leave_out_reports():
        return study.run()


@pytest.mark.parametrize("full", FULL)
def test_full_disk(full: str, study: Study, unbroken: SweepState) -> None:
    study.write(f"hook = {FULL[full]!r}\n" + script(step=HOOK), seeds=2)
    with files_no_larger_than(200_000):
        state = study.run()
    assert state.end_status == "interrupted", study.output
    assert study.output.count("for lack of space") == 1
    assert f"lengthwise resume {state.folder}" in study.output
    first, second = state.packs.values()
    assert (list(first.evaluations), first.attempts, second.has_ended) == ([10], [], False)

    # There is room again.
    study.write(seeds=2)
    resumed = study.resume(state, accept_code_change=True)
    assert (resumed.end_status, resumed.failed_packs) == ("complete", []), study.output
    assert_equal_curves(resumed, unbroken)


def test_log_of_one_long_line(study: Study) -> None:
    """What the ledger keeps of a log is short."""
    study.write(script(step="step == 15 and (print('first'), print('x' * 10**6 + 'last', flush=True), sys.exit(3))"))
    (pack,) = study.run().packs.values()
    trace = str(pack.traces[0])
    assert trace.startswith("begins at 0\nfirst\nxx") and trace.endswith("xlast") and "attempt-1.log" in trace
    assert len(trace) < 25_000 and len(str(pack.error)) < 1000
