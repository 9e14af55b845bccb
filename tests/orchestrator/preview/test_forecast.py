"""What `plan` says of a sweep that is too large for this machine."""

from pathlib import Path

import psutil
import pytest

from orchestrator.preview import forecast as module
from orchestrator.preview.few_seeds import warn_of_few_seeds
from orchestrator.preview.forecast import forecast
from orchestrator.running.schedulers import choice as schedulers
from search_spaces import load_sweep

QUICKSTART = Path(__file__).parents[3] / "search_spaces" / "quickstart.yaml"
EXAMPLES = QUICKSTART.parent / "examples"


def plan(*overrides: str, workers: int | None = 2) -> dict[str, str]:
    return dict(forecast(load_sweep(QUICKSTART, overrides), workers).rows)


@pytest.mark.parametrize("workers", [None, 2])
def test_a_small_step_is_measured(workers: int | None, tmp_path: Path) -> None:
    rows = plan("evaluation.samples=20", workers=workers)
    assert rows["time"].startswith("about ") and float(rows["operations"].split()[0]) > 1e10


@pytest.mark.parametrize(("every", "first"), [("200", "14 s"), ("1000", "18 s"), ("null", "18 s")])
def test_it_says_when_the_first_evaluation_begins(every: str, first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 600 steps that take 6 s, after 12 s in which Ray starts."""
    monkeypatch.setattr(module, "calibrate", lambda *_, **__: 0.01)
    rows = plan(f"evaluation.every={every}")
    assert rows["time"] == f"about 18 s with 2 packs at once, first evaluation after about {first}"


def test_it_says_how_many_configurations_tpe_draws_by_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    example = load_sweep(EXAMPLES / "tpe.yaml", overrides=("search.configurations=20", "search.startup=9"))
    rows = dict(forecast(example, 2).rows)
    assert rows["drawn by results"] == "4 of 20: tpe learns from 9 results on (search.startup)"
    assert "drawn by results" not in dict(forecast(load_sweep(EXAMPLES / "qmc.yaml"), 2).rows)


@pytest.mark.parametrize("limit", ["PATIENCE", "MEMORY_SHARE"])
def test_a_step_too_large_for_this_machine_is_not_tried(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, limit, 0.0)
    monkeypatch.setattr(module, "calibrate", lambda *_, **__: pytest.fail("a step was tried"))
    rows = plan()
    assert rows["time"] == "not measured: a step is too large for this machine"


def test_on_a_gpu_it_says_what_is_not_compiled_and_not_measured() -> None:
    rows = plan("resources.gpus=1", workers=1)
    assert rows["compiled"] == "no: on a GPU a step is captured and replayed as one CUDA graph"
    assert rows["time"].endswith(", measured on a CPU core of this machine; the GPU is not measured")


@pytest.mark.parametrize("cpus", [1, 2])
def test_packs_of_the_plan_have_the_memory_that_they_have_where_they_run(monkeypatch, cpus: int) -> None:
    monkeypatch.setattr(psutil, "cpu_count", lambda: 8)
    spec = load_sweep(QUICKSTART, [f"resources.cpus={cpus}", "resources.scheduler=local"])
    with schedulers.open_scheduler("local", spec.resources, object()) as running:
        assert module._cluster(spec, None) == running.cluster
    half = module._cluster(spec, 2)
    assert (half.workers, half.bytes_per_worker) == (2, psutil.virtual_memory().total / 2)


@pytest.mark.parametrize(("seeds", "warned"), [(6, True), (7, False)])
def test_seeds_too_few_to_tell_three_values_apart_are_warned_of(seeds: int, warned: bool) -> None:
    norms = ("search={sampler: grid}", "space={model.norm: {grid: [none, pre, post]}}", f"seeds={seeds}")
    assert list(warn_of_few_seeds(load_sweep(QUICKSTART, norms))) == warned * [
        "6 seeds cannot tell the 3 values of model.norm apart: no p can be below 0.05 after Holm's correction for 3 "
        "pairs of values; that takes 7 seeds"
    ]
    rates = ("search={sampler: listed, listed: [{model.dropout: 0.1}, {model.dropout: 0.2}]}", "space={}", "seeds=2")
    assert not list(warn_of_few_seeds(load_sweep(QUICKSTART, rates)))
    fixed = ("search={sampler: listed, listed: [{model.norm: post}, {}]}", "space={}", "seeds=2")
    (warning,) = warn_of_few_seeds(load_sweep(QUICKSTART, fixed))
    assert warning.startswith("2 seeds cannot tell the 2 values of model.norm apart")


@pytest.mark.parametrize(("first", "warned"), [(4, True), (7, False)])
def test_in_a_race_the_seeds_of_the_first_round_are_counted(first: int, warned: bool) -> None:
    norms = ("space={model.norm: {grid: [none, pre, post]}}", "seeds=16")
    race = f"search={{sampler: grid, racing: {{first: {first}, keep: 0.5}}}}"
    assert list(warn_of_few_seeds(load_sweep(QUICKSTART, (*norms, race)))) == warned * [
        "4 seeds of the first round of the race, which are all that a configuration surely has, cannot tell the 3 "
        "values of model.norm apart: no p can be below 0.05 after Holm's correction for 3 pairs of values; that takes "
        "7 seeds"
    ]
