"""A builder of sweeps on disk that never trained anything: a real ledger and real curves, values from a function."""

from __future__ import annotations

import copy
import io
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from orchestrator.engine.engine import Engine
from orchestrator.figures import drawing
from orchestrator.interface.measurements import make_measurement_fields
from orchestrator.preview import forecast
from orchestrator.record.files.curves import make_evaluation_table, read_curves, write_part
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.record.state.state import SweepState
from orchestrator.report.terminal import Screen
from orchestrator.results.make_summary import summarize
from orchestrator.results.scoring.configuration_scores import read_objective, score_configurations, score_members
from orchestrator.results.summary import Summary
from orchestrator.running.children.worker_host import WorkerHost
from orchestrator.sweep.run_and_resume import run_sweep
from orchestrator.text.consoles import FILE_WIDTH, UncroppedConsole
from search_spaces import dump_yaml, parse_sweep
from tests.no_reports import leave_out_reports
from tests.orchestrator.confirmations import DRAWS, curve
from tests.orchestrator.tiny_sweeps import (  # noqa: F401 - fixtures
    crowded,
    in_packs,
    left_alone,
    long_sweep,
    lose_first_pack,
    played,
    reporting,
    server,
    stage,
    study,
    tiny,
    tiny_text,
)
from trainers.config.member import MemberConfig
from trainers.evaluation.results import Evaluation

SPEC: dict[str, Any] = {
    "name": "synthetic",
    "study": "set_complement",
    "description": None,
    "task": {"name": "set_complement", "vocabulary": 12, "train_length": 5, "target": "sampled"},
    "model": {"name": "attention_only", "width": 8, "value_width": 8, "norm": "none", "dropout": 0.0},
    "training": {
        "steps": 100,
        "batch_size": 16,
        "learning_rate": 0.003,
        "weight_decay": 0.01,
        "averages": {"raw": {"kind": "raw"}, "ema": {"kind": "ema", "decay": 0.95}},
    },
    "evaluation": {"every": 50, "samples": 50, "lengths": "all"},
    "objective": {
        "metric": "total_variation",
        "average": "ema",
        "lengths": [6, 7],
        "direction": "minimize",
        "reduce": "mean",
        "failed_seeds": "worst",
        "threshold": 0.1,
    },
    "space": {},
    "search": {"sampler": "random", "configurations": 1, "seed": 0, "generation": 8},
    "resources": {"cpus": 1, "gpus": 0, "pack": "auto", "checkpoint_seconds": 30, "checkpoint_steps": None},
    "tracking": {"enabled": True, "uri": None, "experiment": None},
}


@pytest.fixture(scope="session", autouse=True)
def _short_measurements() -> Iterator[None]:
    """Forecasts measure steps for a moment only: how long they take is no fact of a test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forecast, "MEASURED_SECONDS", 0.01)
        yield


@pytest.fixture(scope="session")
def host() -> Iterator[WorkerHost]:
    """A host of workers, which takes as long to start as all that is asked of it."""
    host = WorkerHost()
    yield host
    host.close()


CurveFunction = Callable[[int, int, str, str, np.ndarray, int], Any]


def set_key(tree: dict[str, Any], key: str, value: Any) -> None:
    *path, last = key.split(".")
    for part in path:
        tree = tree[part]
    tree[last] = value


def build_sweep(
    folder: Path,
    configurations: Sequence[Mapping[str, Any]],
    seeds: int | Sequence[int],
    curve_function: CurveFunction,
    failed: Mapping[tuple[int, int], int] | None = None,
    *,
    died: Sequence[int] = (),
    spec: Mapping[str, Any] | None = None,
    ended: bool = True,
    stop_after_step: int | None = None,
) -> SweepState:
    """Write a sweep into `folder` (its name becomes the sweep's) and return its state.

    configurations: the drawn values of each, {dotted key: value}; they override the specification.
    curve_function(number, seed, average, metric, lengths, step): the values at `lengths` (an array), scalar or array.
    failed: (configuration number, seed) -> step from which that member is NaN.
    died: numbers of configurations whose pack died in its middle; their later evaluations are missing.
    spec: dotted keys that override SPEC, e.g. {"objective.lengths": [6]}.
    ended: False leaves out scores, pack ends and the end; stop_after_step leaves out later evaluations.
    One pack per configuration.
    """
    resolved_spec = copy.deepcopy(SPEC) | {"name": folder.name}
    for key, value in (spec or {}).items():
        set_key(resolved_spec, key, value)
    seed_list = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    resolved_spec |= {"seeds": seed_list}
    resolved_spec["search"] |= {"configurations": len(configurations)}
    provenance = {
        "versions": {"torch": "2.13.0"},
        "python": "3.11", "platform": "Linux", "hostname": "lab3", "cpus": 2, "gpus": 0,
    }  # fmt: skip
    first = {"name": folder.name, "study": resolved_spec["study"], "spec": resolved_spec, "spec_hash": "f" * 16}
    code = {
        "name": "c" * 12, "version": "0.0.9", "root": "/lengthwise", "engine": {}, "modules": [],
        "folders": [
            {
                "root": "/mine", "commit": "0" * 40, "dirty": False, "diff": None, "source": "git", "problem": None,
                "files": {}, "not_copied": [],
            }
        ],
    }  # fmt: skip
    with Ledger.create(folder, {**first, "provenance": provenance, "code": code}) as ledger:
        for number, values in enumerate(configurations):
            tree = {key: copy.deepcopy(resolved_spec[key]) for key in ("task", "model", "training", "evaluation")}
            for key, value in values.items():
                set_key(tree, key, value)
            lead = MemberConfig.from_dict({**tree, "seed": seed_list[0]})
            members = [replace(lead, seed=seed) for seed in seed_list]
            resolved = {key: value for key, value in lead.to_dict().items() if key != "seed"}
            pairs = [(lead.config_id, seed) for seed in seed_list]
            pack_id, steps = f"pack{number:04d}", resolved["training"]["steps"]
            ledger.append(
                "configuration", number=number, config_id=lead.config_id, values=dict(values), resolved=resolved,
                duplicate_of=None, **make_measurement_fields(Engine.list_measurements(lead), ()),
            )  # fmt: skip
            ledger.append("pack", pack_id=pack_id, structural_key=lead.structural_key, members=pairs, steps=steps)
            every = resolved["evaluation"]["every"]
            for step in sorted({*range(every, steps + 1, every), steps}):
                if (stop_after_step is not None and step > stop_after_step) or (number in died and step > steps // 2):
                    break
                evaluation = make_evaluation(number, members, step, steps, curve_function, failed or {})
                table = make_evaluation_table(pack_id, pairs, evaluation)
                file, sha256 = write_part(folder, pack_id, step, table)
                ledger.append(
                    "evaluation", pack_id=pack_id, step=step, final=evaluation.final, file=file, sha256=sha256,
                    loss=evaluation.loss_M, failed_at=evaluation.failed_at_M, seconds=evaluation.seconds,
                    form=evaluation.form, compiled=evaluation.compiled,
                )  # fmt: skip
            if ended:
                status, error = ("failed", "worker died") if number in died else ("complete", None)
                ledger.append("pack_end", pack_id=pack_id, status=status, error=error, seconds=1.0 + number)
        if ended:
            state = SweepState.load(folder)
            objective = read_objective(state.spec)
            rows = score_members(read_curves(state), objective, state.list_packed_seeds())
            scores = score_configurations(rows, objective)
            for config_id, summary in scores.items():
                number = state.configurations[config_id].number
                score = None if summary.is_failed else summary.median
                ledger.append(
                    "score", config_id=config_id, number=number, score=score, seeds_failed=summary.failed_count
                )
            succeeded = any(not summary.is_failed for summary in scores.values())
            ledger.append("end", status="complete" if succeeded else "failed", message="")
    return SweepState.load(folder)


def make_evaluation(
    number: int,
    members: Sequence[MemberConfig],
    step: int,
    steps: int,
    curve_function: CurveFunction,
    failed: Mapping[tuple[int, int], int],
) -> Evaluation:
    lead = members[0]
    averages, metrics = tuple(lead.to_dict()["training"]["averages"]), tuple(lead.task.metrics)
    lengths = np.array(lead.task.lengths)
    values = np.empty((len(members), len(averages), len(metrics), len(lengths)), dtype=np.float32)
    failed_at = np.array([failed.get((number, member.seed), -1) for member in members], dtype=np.int64)
    failed_at[failed_at > step] = -1
    for m, member in enumerate(members):
        for a, average in enumerate(averages):
            for k, metric in enumerate(metrics):
                values[m, a, k] = curve_function(number, member.seed, average, metric, lengths, step)
        if failed_at[m] >= 0:
            values[m] = np.nan
    return Evaluation(
        step=step, final=step == steps, averages=averages, metrics=metrics, lengths=tuple(lengths.tolist()),
        values_MAKL=values, loss_M=np.full(len(members), 0.5), failed_at_M=failed_at, seconds=step / 100,
        form="plain", compiled=False,
    )  # fmt: skip


def plain_curve(number: int, seed: int, average: str, metric: str, lengths: np.ndarray, step: int) -> np.ndarray:
    """Grows with length beyond 5, falls with training, worse for later configurations, a little noise by seed."""
    base = 0.02 * (1 + number) + 0.03 * np.maximum(lengths - 5, 0) + 0.2 / step + 0.001 * seed
    return base * (1.0 if average == "ema" else 1.1)


@pytest.fixture(scope="session")
def synthetic_sweep() -> Callable[..., SweepState]:
    return build_sweep


@pytest.fixture(scope="session")
def simple_curve() -> CurveFunction:
    return plain_curve


@pytest.fixture(scope="session")
def _small_sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    norms = ("none", "pre", "post")
    configurations = [
        {"training.learning_rate": 10.0 ** -(4 - n / 3), "training.batch_size": 16 << n % 2, "model.norm": norms[n % 3]}
        for n in range(6)
    ]
    return build_sweep(
        tmp_path_factory.mktemp("built") / "small", configurations, 3, plain_curve, failed={(1, 2): 60}
    ).folder


@pytest.fixture
def small_sweep(_small_sweep: Path, tmp_path: Path) -> SweepState:
    """Six configurations of three seeds with learning rate, batch size and norm drawn; seed 2 of number 1 failed."""
    return SweepState.load(Path(shutil.copytree(_small_sweep, tmp_path / "small")))


TRAINED: dict[str, Any] = {
    "name": "trained",
    "study": "tests",
    "task": {"name": "set_complement", "vocabulary": 6, "train_length": 3},
    "model": {"name": "attention_only", "width": 8, "value_width": 8},
    "training": {
        "steps": 12,
        "batch_size": 8,
        "learning_rate": 0.003,
        "compile": False,
        "averages": {"raw": {}, "ema": {"decay": 0.9}},
    },
    "space": {"training.learning_rate": {"log_uniform": [0.001, 0.1]}, "model.dropout": {"choice": [0.0, 0.2]}},
    "search": {"configurations": 3},
    "seeds": [0, 3],
    "evaluation": {"every": 6, "samples": 10},
    "objective": {"metric": "total_variation", "average": "ema", "lengths": [4], "direction": "minimize"},
    "resources": {"scheduler": "inline", "keep_weights": True},
    "tracking": {"enabled": False},
}


@pytest.fixture(scope="session")
def _trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    spec = parse_sweep(dump_yaml(TRAINED), "the tests")
    output = io.StringIO()
    with leave_out_reports():
        outcome = run_sweep(spec, tmp_path_factory.mktemp("trained"), Console(file=output))
    assert outcome.exit_code == 0, output.getvalue()
    return outcome.folder


@pytest.fixture
def trained_sweep(_trained: Path, tmp_path: Path) -> Path:
    """The folder of a sweep that was trained here: three configurations of two seeds, with kept weights."""
    return Path(shutil.copytree(_trained, tmp_path / "trained"))


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The matplotlib figures that would be saved, by file name, instead of files."""
    figures: dict[str, Any] = {}

    def save(path: Path, draw: Callable[[], Any], *facts: Any) -> Path:
        figures[path.name] = draw()
        return path

    monkeypatch.setattr(drawing, "save_figure", save)
    return figures


ADDITION: dict[str, Any] = {
    "task": {
        "name": "padded_addition",
        "width": 8,
        "train_digits": 2,
        "measured_cascades": [3, 0, 1],
        "measured_digits": 2,
    },
    "objective.metric": "exact_match",
    "objective.average": "raw",
    "objective.lengths": [3, 4],
    "objective.direction": "maximize",
    "objective.threshold": 0.5,
}


def accuracy_by_cascade(number: int, seed: int, average: str, metric: str, lengths: np.ndarray, step: int) -> Any:
    """Falls with cascade, length and number; rises with the seed; no cascade is longer than the number."""
    stem, _, index = metric.rpartition("_")
    level = 0.9 - 0.02 * lengths - 0.05 * number + 0.01 * seed - (0.3 if average == "ema" else 0.0)
    if stem == "exact_match_cascade":
        return np.where(int(index) <= lengths, level - 0.1 * int(index), np.nan)
    return level


@pytest.fixture
def accuracy() -> CurveFunction:
    return accuracy_by_cascade


@pytest.fixture
def additions() -> Callable[..., Summary]:
    """Build sweeps of additions measured by the cascades in them, and return their summaries."""

    def build(
        folder: Path,
        values: Sequence[Mapping[str, Any]] = ({}, {"model.norm": "pre"}),
        seeds: int = 3,
        curve: CurveFunction = accuracy_by_cascade,
        failed: Mapping[tuple[int, int], int] | None = None,
        **spec: Any,
    ) -> Summary:
        return summarize(build_sweep(folder, list(values), seeds, curve, failed, spec={**ADDITION, **spec}))

    return build


def printed(rendered, console):
    console.print(rendered)
    return console.file.getvalue()


@pytest.fixture
def short_text():
    """What a sweep prints at its end on a terminal of a width, or to a log where none is given."""

    def text(result, width=None, height=24):
        look = {"width": width or FILE_WIDTH, "height": height, "color_system": None}
        look["force_terminal"] = width is not None
        return printed(Screen(result), UncroppedConsole(file=io.StringIO(), **look))

    return text


@pytest.fixture
def searched(tmp_path, synthetic_sweep):
    """searched() is a search of four configurations for `confirm`."""

    def build(name="searched", seeds=3, **settings):
        return synthetic_sweep(tmp_path / name, DRAWS, seeds, settings.pop("curve", curve), **settings)

    return build
