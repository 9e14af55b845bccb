"""A sweep with metrics apart from its task: judged by one of them, with the configurations that it has without."""

import numpy as np
import pytest

from orchestrator.errors import SpecChanged, UserError
from orchestrator.plan.extension import require_extension
from orchestrator.record.files.curves import read_curves
from orchestrator.results.make_summary import summarize
from orchestrator.sweep.specification import refuse_changed_sweep_yaml
from search_spaces import SweepFileError, load_sweep
from tests.orchestrator.tiny_sweeps import SHORT

METRICS = "evaluation.metrics={cross_entropy: {}, coarse: {kind: calibration, bins: 2}}"
JUDGED = "objective={metric: cross_entropy, average: ema, lengths: [4]}"


def test_a_sweep_is_judged_by_a_metric_apart_from_its_task(stage, played) -> None:
    before, now = played(*SHORT), stage("added", *SHORT, METRICS, JUDGED).play()
    assert [*before.configurations] == [*now.configurations]  # the ids
    result = summarize(now)
    assert result.objective.direction == "minimize"
    assert all(row.score is not None and np.isfinite(row.score) for row in result.rows)
    assert {"cross_entropy", "coarse"} < {*result.headline}
    old, new = read_curves(before, final_only=True), read_curves(now, final_only=True)
    of_task = new[~new["metric"].isin(["cross_entropy", "coarse"])]
    keys = ["config_id", "seed", "average", "metric", "length"]
    assert np.array_equal(*(curves.sort_values(keys)["value"].to_numpy() for curves in (old, of_task)), equal_nan=True)


def test_metrics_are_those_that_the_sweep_began_with(stage, tiny) -> None:
    few = (*SHORT, "search.configurations=1", "seeds=1")
    state = stage("plain", *few).play()
    spec, added = (load_sweep(tiny, [*few, *more]) for more in ([], [METRICS]))
    refuse_changed_sweep_yaml(spec, state)
    with pytest.raises(SpecChanged):
        refuse_changed_sweep_yaml(added, state)
    with pytest.raises(UserError):
        require_extension(spec, added, "plain")


@pytest.mark.parametrize("key", ["evaluation.metrics", "evaluation.metrics.coarse.bins"])
def test_metrics_are_not_searched(tiny, key: str) -> None:
    with pytest.raises(SweepFileError) as caught:
        load_sweep(tiny, [METRICS, f"space.{key}={{grid: [2, 3]}}"])
    assert [problem.key for problem in caught.value.problems] == [f"space.{key}"]
