"""Ledgers of sweeps whose members never trained, with invented curves, and claims about them."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from orchestrator.claims.verdicts import Judgement, judge, read_tested_sweeps
from orchestrator.engine.engine import Engine
from orchestrator.interface.measurements import make_measurement_fields
from orchestrator.plan.configurations import make_configurations
from orchestrator.plan.optuna_draws import draw_sample
from orchestrator.record.files.curves import make_evaluation_table, write_part
from orchestrator.record.ledger.ledger import Ledger
from search_spaces import load_sweep
from search_spaces.grammar.claims import load_claims
from tests.startup.sitecustomize import blank
from trainers.config.member import MemberConfig
from trainers.evaluation.results import Evaluation

Invent = Callable[[MemberConfig, int, tuple[str, ...], int], np.ndarray]
"""Of a member, the number of its configuration, its metrics and a step: values (averages, metrics, lengths)."""

Value = Callable[[MemberConfig, str, str, int, int], float]
"""Of a member, a metric, an average, a length and a step: the value."""


def pretended_sweep(
    file: Path, storage: Path, invent: Invent, *, evaluations: int = 0, seeds: int | None = None, end: bool = True
) -> Path:
    """The folder of a sweep with invented curves.

    Evaluated so many times, at the end and evenly before it; 0: as often as the file says.
    `seeds`: so many, whatever the file says.
    """
    spec = load_sweep(file, overrides=[f"seeds={seeds}"] if seeds else [])
    drawn = draw_sample(spec, spec.search.configurations or 1)
    drawn_configurations = make_configurations(spec, [(draw.number, draw.values) for draw in drawn])
    configurations = {
        configuration.config_id: configuration for configuration in reversed(drawn_configurations)
    }  # the first of equal ones
    numbers = {configuration.config_id: configuration.number for configuration in configurations.values()}
    folder, known = storage / spec.name, set[str]()
    first = {"name": spec.name, "study": spec.study, "spec": spec.resolved(), "spec_hash": spec.spec_hash}
    packs: dict[tuple[object, ...], list[tuple[str, MemberConfig]]] = {}
    with Ledger.create(folder, {**first, "provenance": {}}) as ledger:
        for configuration in sorted(configurations.values(), key=lambda configuration: configuration.number):
            members = [configuration.build_member(seed) for seed in spec.seeds]
            fields = make_measurement_fields(Engine.list_measurements(members[0]), known)
            known.add(fields["measured"])
            ledger.append(
                "configuration",
                number=configuration.number,
                config_id=configuration.config_id,
                values=configuration.values,
                resolved=configuration.resolved,
                duplicate_of=None,
                **fields,
            )
            metrics = tuple(members[0].metrics)
            alike = (
                metrics,
                members[0].evaluated_lengths,
                tuple(members[0].training.averages),
                members[0].training.steps,
            )
            packs.setdefault(alike, []).extend((configuration.config_id, member) for member in members)
        for number, ((metrics, lengths, averages, steps), members) in enumerate(packs.items()):
            pairs = [(config_id, member.seed) for config_id, member in members]
            ledger.append("pack", pack_id=f"p{number}", structural_key="k", members=pairs, steps=steps)
            every = steps // evaluations if evaluations else spec.evaluation["every"]
            for step in range(steps, 0, -every)[::-1]:
                values = [invent(member, numbers[config_id], metrics, step) for config_id, member in members]
                failed = [0 if step == steps and np.isnan(curve).any() else -1 for curve in values]
                evaluation = Evaluation(
                    step=step, final=step == steps, averages=averages, metrics=metrics, lengths=lengths,
                    values_MAKL=np.stack(values).astype(np.float32), loss_M=np.zeros(len(members)),
                    failed_at_M=np.array(failed), seconds=1.0, form="table", compiled=False,
                )  # fmt: skip
                table = make_evaluation_table(f"p{number}", pairs, evaluation)
                part, sha256 = write_part(folder, f"p{number}", step, table)
                ledger.append(
                    "evaluation", pack_id=f"p{number}", step=step, final=evaluation.final, file=part, sha256=sha256,
                    loss=evaluation.loss_M, failed_at=evaluation.failed_at_M, seconds=1.0, form="table", compiled=False,
                )  # fmt: skip
            ledger.append("pack_end", pack_id=f"p{number}", status="complete", error=None, seconds=1.0)
        if end:
            ledger.append("end", status="complete", message="")
    return folder


SWEEP = """\
name: made_up
study: made_up
task: {name: set_complement, vocabulary: 10, train_length: 4, target: sampled}
model: {name: attention_only, width: 8, norm: none}
training: {steps: 100, batch_size: 8, learning_rate: 0.001, averages: {raw: {}, ema: {decay: 0.9}}}
space:
  model.norm: {grid: [none, pre]}
  training.learning_rate: {grid: [0.001, 0.003]}
search: {sampler: grid}
seeds: 9
evaluation: {every: 100, lengths: all}
objective: {metric: total_variation, average: raw, lengths: [5, 6], direction: minimize}
"""
STEPS = """\
name: made_up
study: made_up
task: {name: half_parity, scratchpad: full, size: 4, loss_on_question: false}
model: {name: decoder, layers: 1, width: 8, heads: 2, position: learned, dropout: 0.0}
training: {steps: 800, batch_size: 8, learning_rate: 0.001}
space: {task.size: {grid: [4, 8]}}
search: {sampler: grid}
seeds: 6
evaluation: {every: 10, lengths: all}
objective: {metric: exact_match, average: raw, lengths: [1], direction: maximize}
"""
USED = ("total_variation", "invalid_mass")
"""The metrics whose values are invented; the others are 0."""
PRE = {"where": {"model.norm": "pre", "training.learning_rate": 0.001}}
NONE = {"where": {"model.norm": "none", "training.learning_rate": 0.001}}
CLAIM: dict[str, Any] = {
    "id": "pre_norm",
    "says": "Pre-norm lowers the error.",
    "sweep": "made_up",
    "question": "difference",
    "arms": {"pre": PRE, "none": NONE},
    "compare": ["pre", "none"],
    "metric": "total_variation",
    "expect": "smaller",
}


def claim(**changes: Any) -> dict[str, Any]:
    """CLAIM with other keys; those that are None are left out."""
    return {key: value for key, value in {**CLAIM, **changes}.items() if value is not None}


def write_claims(path: Path, claims: Sequence[Mapping[str, Any]], closing: str = "") -> Path:
    written = json.loads(
        json.dumps({"title": "Made up", "claims": list(claims), "closing": closing})
    )  # copies: YAML anchors are refused
    path.write_text(yaml.safe_dump(written, sort_keys=False), encoding="utf-8")
    return path


@pytest.fixture
def blank_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the pictures of pages blank: drawing them takes longer than all the rest."""
    monkeypatch.setattr("orchestrator.claims.claims_page.draw_claim", lambda judgement: None)
    monkeypatch.setattr("orchestrator.claims.claims_page.write_small_png", lambda figure, path: blank(path, None))


Judge = Callable[..., dict[str, Judgement]]


@pytest.fixture
def judge_claims(tmp_path: Path) -> Judge:
    """judge_claims(value, claims..., seeds=9, sweep=SWEEP, ...): the judgements of an invented sweep, by claim id.

    value(member, metric, average, length, step) is one value of a member's curve.
    """

    def write_and_judge(
        value: Value,
        *claims: Mapping[str, Any],
        seeds: int = 9,
        sweep: str = SWEEP,
        evaluations: int = 0,
        end: bool = True,
    ) -> dict[str, Judgement]:
        def invent(member: MemberConfig, number: int, metrics: tuple[str, ...], step: int) -> np.ndarray:
            averages, lengths = tuple(member.training.averages), member.evaluated_lengths
            nothing = [0.0] * len(lengths)
            return np.array(
                [
                    [[value(member, k, a, s, step) for s in lengths] if k in USED else nothing for k in metrics]
                    for a in averages
                ]
            )

        storage = tmp_path / f"storage_{len(list(tmp_path.iterdir()))}"
        storage.mkdir()
        (storage / "made_up.yaml").write_text(sweep)
        pretended_sweep(storage / "made_up.yaml", storage, invent, evaluations=evaluations, seeds=seeds, end=end)
        file = load_claims(write_claims(storage / "claims.yaml", claims))
        return {judgement.claim.id: judgement for judgement in judge(file, read_tested_sweeps(file, storage))}

    return write_and_judge


def is_pre(member: MemberConfig) -> bool:
    return bool(member.model.norm == "pre")
