"""What `plan` says of a sweep that is too large for this machine."""

from pathlib import Path

import psutil
import pytest

from orchestrator.preview import forecast as module
from orchestrator.preview.few_seeds import describe_few_seeds
from orchestrator.preview.forecast import forecast
from orchestrator.running.schedulers import choice as schedulers
from orchestrator.running.schedulers import local
from search_spaces import load_sweep

QUICKSTART = Path(__file__).parents[3] / "search_spaces" / "quickstart.yaml"


def plan(*overrides: str, workers: int | None = 2) -> dict[str, str]:
    return dict(forecast(load_sweep(QUICKSTART, overrides), workers).rows)


def test_a_small_step_is_measured() -> None:
    rows = plan("evaluation.samples=20", "search.configurations=1", workers=None)
    assert rows[module.TIME].startswith("about ") and "ms" in rows["measured step"]


def test_the_time_is_that_of_all_steps_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two packs of 600 steps of 10 ms: 6 s on two workers, 12 s on one, after 12 s in which Ray starts."""
    monkeypatch.setattr(module, "measure_seconds_per_step", lambda *_, **__: 0.01)
    assert plan("resources.scheduler=ray")[module.TIME].startswith("about 18 s with 2 packs")
    assert plan("resources.scheduler=ray", workers=1)[module.TIME].startswith("about 24 s with 1 pack")


def test_structures_that_are_not_measured_take_the_time_of_their_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.01])
    monkeypatch.setattr(module, "measure_seconds_per_step", lambda *_, **__: next(times))
    monkeypatch.setattr(module, "MAX_MEASURED", 1)
    rows = plan()
    assert rows["packs"].endswith("(2 structures)") and " ms to " in rows["measured step"]


@pytest.mark.parametrize("limit", ["MAX_STEP_OPERATIONS", "MAX_MEMORY_SHARE"])
def test_a_step_too_large_for_this_machine_is_not_tried(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, limit, 0.0)
    monkeypatch.setattr(module, "measure_seconds_per_step", lambda *_, **__: pytest.fail("a step was tried"))
    rows = plan("search.configurations=1")
    assert rows[module.TIME].startswith("not measured") and "measured step" not in rows


def test_on_a_gpu_it_says_what_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "measure_seconds_per_step", lambda *_, **__: 0.01)
    assert "GPU is not measured" in plan("resources.gpus=1", "search.configurations=1", workers=1)[module.TIME]


@pytest.mark.parametrize("cpus", [1, 2])
def test_packs_of_the_plan_have_the_memory_that_they_have_where_they_run(monkeypatch, cpus: int) -> None:
    monkeypatch.setattr(local, "count_cores", lambda: 8)
    spec = load_sweep(QUICKSTART, [f"resources.cpus={cpus}", "resources.scheduler=local"])
    with schedulers.open_scheduler("local", spec.resources, object()) as running:
        assert module.find_cluster(spec, None) == running.cluster
    assert running.cluster.workers == 8 // cpus
    half = module.find_cluster(spec, 2)
    assert (half.workers, half.bytes_per_worker) == (2, psutil.virtual_memory().total / 2)


@pytest.mark.parametrize(("seeds", "warned"), [(6, True), (7, False)])
def test_seeds_too_few_to_tell_three_values_apart_are_warned_of(seeds: int, warned: bool) -> None:
    norms = ("search={sampler: grid}", "space={model.norm: {grid: [none, pre, post]}}", f"seeds={seeds}")
    warnings = list(describe_few_seeds(load_sweep(QUICKSTART, norms)))
    assert [("model.norm" in warning, warning.endswith("7 seeds")) for warning in warnings] == warned * [(True, True)]
    rates = ("search={sampler: listed, listed: [{model.dropout: 0.1}, {model.dropout: 0.2}]}", "space={}", "seeds=2")
    assert not list(describe_few_seeds(load_sweep(QUICKSTART, rates)))
    fixed = ("search={sampler: listed, listed: [{model.norm: post}, {}]}", "space={}", "seeds=2")
    (warning,) = describe_few_seeds(load_sweep(QUICKSTART, fixed))
    assert "model.norm" in warning


@pytest.mark.parametrize(("first", "warned"), [(4, True), (7, False)])
def test_in_a_race_the_seeds_of_the_first_round_are_counted(first: int, warned: bool) -> None:
    norms = ("space={model.norm: {grid: [none, pre, post]}}", "seeds=16")
    race = f"search={{sampler: grid, racing: {{first: {first}, keep: 0.5}}}}"
    warnings = list(describe_few_seeds(load_sweep(QUICKSTART, (*norms, race))))
    assert [("4 seeds" in warning, warning.endswith("7 seeds")) for warning in warnings] == warned * [(True, True)]
