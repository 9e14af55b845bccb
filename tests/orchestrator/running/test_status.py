"""Where a sweep stands, for somebody who is not its driver: what to type next is a whole command."""

from orchestrator.consoles import align_rows
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.state.state import SweepState
from orchestrator.running.watching.meter import status_rows


def test_a_killed_and_an_interrupted_sweep_say_how_to_go_on(tmp_path, synthetic_sweep, simple_curve):
    folder = tmp_path / "my sweep"
    values = [{"model.norm": "none"}, {"model.norm": "pre"}]
    killed = dict(status_rows(synthetic_sweep(folder, values, 1, simple_curve, ended=False)))
    assert (killed["state"], killed["continue with"]) == ("not running", f"lengthwise resume '{folder}'")
    with Ledger.open(folder) as ledger:
        ledger.append("end", status="interrupted", message="stopped by a signal")
        assert "continue with" not in dict(status_rows(SweepState.load(folder)))  # it has a driver
    stopped = dict(status_rows(SweepState.load(folder)))
    assert stopped["state"] == "interrupted: stopped by a signal"
    assert stopped["continue with"] == f"lengthwise resume '{folder}'"


def test_a_finished_sweep_has_nothing_to_go_on_with(small_sweep):
    rows = status_rows(small_sweep)
    assert "continue with" not in dict(rows)
    lines = align_rows(rows).splitlines()
    assert len(lines) == len(rows) and not [line for line in lines if line != line.rstrip()]
