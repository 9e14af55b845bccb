"""Ledgers of shipped sweeps whose members never trained: their curves are made up."""

import functools
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from orchestrator.plan.configurations import configure
from orchestrator.plan.search import draw_sample
from orchestrator.record.kept.curves import write_part
from orchestrator.record.ledger.ledger import Ledger
from orchestrator.studies.measures import Sweep
from search_spaces import load_sweep
from trainers.config.member import MemberConfig
from trainers.evaluation.results import Evaluation

Invent = Callable[[MemberConfig, int, tuple[str, ...], int], np.ndarray]
"""Of a member, the number of its configuration, its metrics and a step: values (averages, metrics, lengths)."""


def pretended_sweep(
    file: Path,
    storage: Path,
    invent: Invent,
    *,
    evaluations: int = 0,
    more: Sequence[str] = (),
    seeds: int | None = None,
) -> Sweep:
    """The ledger of a sweep file with invented curves, `more` metrics beside its task's.

    Evaluated so many times, at the end and evenly before it; 0: as often as the file says.
    `seeds`: so many, whatever the file says.
    """
    spec = load_sweep(file, overrides=[f"seeds={seeds}"] if seeds else [])
    drawn = draw_sample(spec, spec.search.configurations or 1)
    every_one = configure(spec, [(draw.number, draw.values) for draw in drawn])
    configurations = {one.config_id: one for one in reversed(every_one)}  # the first of equal ones
    numbers = {one.config_id: one.number for one in configurations.values()}
    folder = storage / spec.name
    first = {"name": spec.name, "study": spec.study, "spec": spec.resolved(), "spec_hash": spec.spec_hash}
    packs: dict[tuple[object, ...], list[MemberConfig]] = {}
    with pytest.MonkeyPatch.context() as patch, Ledger.create(folder, {**first, "provenance": {}}) as ledger:
        patch.setattr(os, "fsync", lambda descriptor: None)
        for one in sorted(configurations.values(), key=lambda one: one.number):
            ledger.append(
                "configuration", number=one.number, config_id=one.config_id, values=one.values,
                resolved=one.resolved, duplicate_of=None,
            )  # fmt: skip
            members = [one.member(seed) for seed in spec.seeds]
            metrics = tuple(dict.fromkeys((*members[0].task.metrics, *more)))
            alike = (
                metrics,
                members[0].evaluated_lengths,
                tuple(members[0].training.averages),
                members[0].training.steps,
            )
            packs.setdefault(alike, []).extend(members)
        for number, ((metrics, lengths, averages, steps), members) in enumerate(packs.items()):
            pairs = [(member.config_id, member.seed) for member in members]
            ledger.append("pack", pack_id=f"p{number}", structural_key="k", members=pairs, steps=steps)
            every = steps // evaluations if evaluations else spec.evaluation["every"]
            for step in range(steps, 0, -every)[::-1]:
                evaluation = Evaluation(
                    step=step, final=step == steps, averages=averages, metrics=metrics, lengths=lengths,
                    values_MAKL=np.stack(
                        [invent(member, numbers[member.config_id], metrics, step) for member in members]
                    ).astype(np.float32),
                    loss_M=np.zeros(len(members)), failed_at_M=np.full(len(members), -1), seconds=1.0, form="table",
                    compiled=False,
                )  # fmt: skip
                part, sha256 = write_part(folder, f"p{number}", pairs, evaluation)
                ledger.append(
                    "evaluation", pack_id=f"p{number}", step=step, final=evaluation.final, file=part, sha256=sha256,
                    loss=evaluation.loss_M, failed_at=evaluation.failed_at_M, seconds=1.0, form="table", compiled=False,
                )  # fmt: skip
            ledger.append("pack_end", pack_id=f"p{number}", status="complete", error=None, seconds=1.0)
        ledger.append("end", status="complete", message="")
    return Sweep(folder)


@pytest.fixture(scope="session")
def pretend() -> Callable[..., Sweep]:
    """`pretended_sweep`."""
    return pretended_sweep


Pretended = Callable[[float], dict[str, Sweep]]


@pytest.fixture(scope="module")
def pretended(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pretended:
    """pretended(effect): the sweeps of the module's FILES by name, made up by its `member_values`, how: its PRETENDED.

    `member_values` gets the effect last. Each effect is made up once.
    """
    module = request.module

    @functools.cache
    def make(effect: float) -> dict[str, Sweep]:
        storage = tmp_path_factory.mktemp("pretended")
        return {
            name: pretended_sweep(file, storage, lambda *of: module.member_values(*of, effect), **module.PRETENDED)
            for name, file in module.FILES.items()
        }

    return make
