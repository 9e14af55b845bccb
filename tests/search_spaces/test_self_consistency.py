"""Metrics of sampled answers, by the example's module: equal to plain Python on the same draws, in any pack."""

import itertools
from collections import Counter
from dataclasses import fields, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.trainers.evaluation.test_added_metrics import curves, members, problems
from tests.trainers.runs import stepped
from tests.trainers.training.test_waits import waits
from trainers.check import check_class, check_metrics, check_task
from trainers.evaluation import evaluate as evaluation
from trainers.evaluation.evaluate import evaluate, evaluate_weights
from trainers.evaluation.forward import Forward
from trainers.metrics.metric import EvaluatedBatch
from trainers.packs.evaluation_inputs import draw_evaluation_inputs, make_evaluation_stream
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState, collect_weights
from trainers.tasks.scratchpad.parity import HalfParity
from trainers.tensors.noise import Noise

CPU = torch.device("cpu")
DRAWS = {"draws": 6, "temperature": 0.8}
METRICS: dict[str, Any] = {
    "pass_at_1": {"kind": "pass_at_k", "k": 1, **DRAWS},
    "pass_at_4": {"kind": "pass_at_k", "k": 4, **DRAWS},
    "majority": DRAWS,
}
PARITY = {"name": "half_parity", "size": 2, "scratchpad": "none"}  # guesses are often right
FEW = {name: {**settings, "draws": 4} for name, settings in METRICS.items()}
STATES = {"name": "parity", "canvas": 2, "train_bits": 2, "temperature": 0.5}


@pytest.fixture(autouse=True)
def metrics(load) -> None:
    load("self_consistency")


def pack_of(task: dict[str, Any] = PARITY, count: int = 2, metrics: Any = METRICS) -> Pack:
    return Pack(members(count, metrics, task=task), CPU)


def answers_of(pack: Pack, state: TrainingState, draws: int = 6) -> list[tuple[tuple[int, ...], Tensor, Tensor]]:
    """Return the lengths of each test batch, its sampled answers, (M, B, D, A), and its true ones, (M, B, A)."""
    answers = []
    for test in draw_evaluation_inputs(pack):
        batch = test.batch.for_members(pack.seed_index_M)
        noise = Noise(
            make_evaluation_stream(pack, "dropout"),
            torch.arange(len(pack)),
            training=False,
            total=batch.tokens.shape[1],
        )
        forward = Forward(pack.model, pack.layout.split(state.theta), pack.form, noise)
        with torch.no_grad():
            sampled = pack.task.sample_answers(forward, batch, test.lengths, draws, 0.8)
        answers.append((test.lengths, sampled, pack.task.true_answers(batch, test.lengths)))
    return answers


def plain_values(draws_BDA: Tensor, true_BA: Tensor) -> dict[str, list[float]]:
    """Return each metric of each row, by loops over choices of its answers."""
    values: dict[str, list[float]] = {name: [] for name in METRICS}
    for draws, right in zip(draws_BDA.tolist(), true_BA.tolist(), strict=True):
        for k in (1, 4):  # the share of all choices of k of the answers that have a right one
            choices = [any(draw == right for draw in few) for few in itertools.combinations(draws, k)]
            values[f"pass_at_{k}"].append(sum(choices) / len(choices))
        ((most, _), *_) = Counter(map(tuple, draws)).most_common()  # of equal counts the first
        values["majority"].append(float(list(most) == right))
    return values


@pytest.mark.parametrize("task", [PARITY, STATES], ids=["one token", "states"])
def test_values_are_those_of_plain_python_on_the_same_draws(task: dict[str, Any]) -> None:
    pack = pack_of(task)
    state = stepped(pack)
    values = curves(pack, state)
    for (length,), sampled, true in answers_of(pack, state):
        for m in range(len(pack)):
            for name, expected in plain_values(sampled[m], true[m]).items():
                assert values[name][m, pack.lengths.index(length)] == pytest.approx(np.mean(expected), abs=1e-6)


def test_each_row_has_its_value_whatever_its_draws_are() -> None:
    drawn = torch.randint(0, 2, (1, 200, 6, 2), generator=torch.Generator().manual_seed(0))
    true = torch.randint(0, 2, (1, 200, 2), generator=torch.Generator().manual_seed(1))
    task: Any = SimpleNamespace(true_answers=lambda batch, lengths: true)
    unused: dict[str, Any] = dict.fromkeys(item.name for item in fields(EvaluatedBatch))
    seen = EvaluatedBatch(**{**unused, "task": task, "sample": lambda draws, temperature: drawn})
    added = members(1, METRICS, task=PARITY)[0].evaluation.added_metrics
    expected = plain_values(drawn[0], true[0])
    for name, metric in added.items():
        assert metric.score_rows(seen)[0, :, 0].tolist() == pytest.approx(expected[name], abs=1e-12)
    assert len(set(zip(*expected.values(), strict=True))) > 5  # rows of many kinds


def test_a_member_alone_has_the_bits_of_its_pack_in_any_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    pack = pack_of(PARITY, 3)
    state = stepped(pack, 40)
    names, whole = evaluate(pack, state)
    assert all(len(np.unique(whole[:, :, names.index(name)])) > 1 for name in METRICS), "some answers are right"
    alone = evaluate(pack.select([2]), state.select([2]))[1]
    assert (alone[0] == whole[2]).all()
    monkeypatch.setattr(evaluation, "LOGITS_PER_MEMBER", 6 * 4 * pack.model.cache_size_per_token)  # 4 rows, then 3
    assert (evaluate(pack, state)[1] == whole).all()
    later = evaluate_weights(pack, list(collect_weights(pack, state).values()))
    assert all((later[1][:, :, k] == whole[:, :, names.index(name)]).all() for k, name in enumerate(later[0]))


def test_equal_draws_are_sampled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls, sample = list[int](), HalfParity.sample_answers

    def counted(self, forward, batch, lengths, draws, temperature):
        calls.append(draws)
        return sample(self, forward, batch, lengths, draws, temperature)

    monkeypatch.setattr(HalfParity, "sample_answers", counted)
    pack = pack_of(metrics={**METRICS, "other": {"kind": "majority", "draws": 3}})
    evaluate(pack, TrainingState.make_initial(pack))
    assert calls == [6, 3]
    (member,) = members(1, {**METRICS, "other": {"kind": "majority", "draws": 3}}, task=PARITY)
    passes = member.task.passes_with(member.model)
    assert member.evaluation_passes == pytest.approx(passes + (passes - 1) * 9)
    assert replace(member, evaluation=replace(member.evaluation, metrics=None)).evaluation_passes == passes


def test_what_cannot_be_measured_is_refused() -> None:
    assert problems({"majority": {}}) == [("evaluation.metrics.majority", None)]  # copy_string generates nothing
    assert problems({"calibration": {}}, task=STATES) == [("evaluation.metrics.calibration", None)]
    for wrong, key in (({"k": 3, "draws": 2}, "k"), ({"draws": 0}, "draws"), ({"temperature": 0.0}, "temperature")):
        assert problems({"pass_at_k": wrong}, task=PARITY) == [(f"evaluation.metrics.pass_at_k.{key}", None)]


def test_the_checks_know_sampled_answers() -> None:
    assert check_class("metric", "pass_at_k") == check_class("metric", "majority") == []
    assert check_metrics(members(1, FEW, task=STATES)[0]) == []

    class Cheap(HalfParity):
        passes = 1.0

    assert len(check_task(Cheap(size=2))) == 1 and check_task(HalfParity(size=2)) == []


def test_nothing_waits_for_sampled_answers() -> None:
    pack = pack_of(STATES, metrics=FEW)
    state = TrainingState.make_initial(pack)
    assert waits(lambda: evaluate(pack, state)) <= {"_derive_metrics"}
