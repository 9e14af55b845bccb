"""A metric of the whole history that stays infinite until its level is reached: that is no failure."""

import io
import math

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from orchestrator.errors import UserError
from orchestrator.figures import drawing
from orchestrator.record.kept.curves import read_curves
from orchestrator.record.state.parts import ConfigurationState, MemberState
from orchestrator.record.state.state import SweepState
from orchestrator.report.files import write_report
from orchestrator.results.summarise import summary
from orchestrator.running.watching.meter import status_rows
from orchestrator.sweep.confirm import confirm, plan_confirmation
from orchestrator.sweep.more_steps import plan_more_steps
from tests.startup.sitecustomize import blank

STEPS = (
    "objective.metric=steps_to_accuracy.hard",
    "objective.direction=minimize",
    "objective.lengths=[3, 4]",
    "seeds=3",
)


@pytest.fixture
def drawn(monkeypatch):
    """The matplotlib figures that are drawn, by file name; in their files is a blank one."""
    found = {}

    def save(path, draw, *facts):
        found[path.name] = draw()
        return blank(path, draw)

    return lambda: monkeypatch.setattr(drawing, "save", save) or found


@pytest.mark.slow
def test_steps_are_judged_drawn_and_written_with_what_was_not_reached(ran, drawn, short_text, full_text):
    folder = ran(*STEPS)
    state = SweepState.load(folder)
    result, curves = summary(state), read_curves(state)
    assert state.ended == "complete" and result.seeds_failed == 0 and result.unreached >= {"steps_to_accuracy.hard"}
    last = curves[
        (curves["step"] == 60) & (curves["average"] == "raw") & (curves["metric"] == "steps_to_accuracy.hard")
    ]
    for row in result.rows:
        values = last[last["config_id"] == row.config_id].groupby("seed")["value"].mean()
        assert row.score == np.median(values) and not row.failed and row.rank is not None
    assert math.isinf(result.rows[-1].score) and math.isfinite(result.rows[0].score)
    accuracy = curves[(curves["average"] == "raw") & (curves["metric"] == "accuracy.hard")]
    first = accuracy[accuracy["value"] >= np.float32(0.9)].groupby(["config_id", "seed", "length"], observed=True)[
        "step"
    ]
    known = last.set_index(["config_id", "seed", "length"])["value"]
    for key, step in first.min().items():
        assert known[key] == step
    assert np.isinf(known).sum() == len(known) - len(first)
    figures = drawn()
    page, table = write_report(folder, result)
    assert all("not reached" in text for text in (page.read_text(), short_text(result, 250), full_text(result, 250)))
    assert " inf" not in short_text(result, 250)
    assert np.isinf(pd.read_csv(table)["score"]).any()
    legend = [text.get_text() for text in figures["score-training.learning_rate.png"].legends[0].get_texts()]
    unreached = sum(math.isinf(row.score) for row in result.rows)
    assert f"not reached ({unreached})" in legend
    crosses = [line for line in figures["comparison.png"].axes[1].lines if line.get_marker() == "x"]
    marked = sorted(length for line in crosses for length in line.get_xdata())
    medians = (result.bands[row.config_id, "steps_to_accuracy.hard", "raw"] for row in result.rows)
    assert marked == sorted(s for of in medians for s, m in zip(of.lengths, of.median, strict=True) if math.isinf(m))


@pytest.mark.slow
def test_a_sweep_that_reaches_nothing_is_complete_and_has_nothing_to_confirm(ran, short_text):
    folder = ran(*STEPS, "task.threshold=2.0", "objective.evaluation=best")  # run_inline holds it to exit code 0
    state = SweepState.load(folder)
    assert state.message == "4 of 4 configurations succeeded"
    assert {found.score for found in state.configurations.values()} == {math.inf}
    result = summary(state)
    assert all(not row.failed and math.isinf(row.score) for row in result.rows)
    assert "not reached" in short_text(result, 250) and dict(status_rows(state))["best so far"] == "none yet"
    write_report(folder)
    with pytest.raises(UserError, match="4 have no finite score"):
        confirm(folder, Console(file=io.StringIO()), plan_confirmation)


def test_what_was_not_reached_gets_more_steps(ran):
    """All that succeeded without --top, as one that is named."""
    few = ("seeds=1", "training.steps=10", "space.training.learning_rate={grid: [0.0001, 0.01]}")
    state = SweepState.load(ran(*STEPS, *few, "task.threshold=2.0"))
    assert state.message == "2 of 2 configurations succeeded"
    for chosen, listed in (({}, 2), ({"only": ["1"]}, 1), ({"top": 1}, 1)):
        planned = plan_more_steps(state, 20, **chosen)
        assert len(planned.spec.search.listed) == listed and "from step 10" in planned.lines[0]


@pytest.mark.parametrize(
    ("score", "failed", "succeeded"),
    [(0.5, 0, True), (math.inf, 0, True), (math.inf, 1, True), (math.inf, 2, False), (None, 4, False)],
)
def test_an_infinite_score_succeeded_unless_failed_seeds_made_it(score, failed, succeeded):
    members = {seed: MemberState(seed, "p") for seed in range(4)}
    found = ConfigurationState("c", 0, {}, {}, "m", members=members, score=score, seeds_failed=failed, finished=True)
    assert found.succeeded == succeeded
