"""Metrics apart from tasks: equal to a plain script member by member, and without a trace in what members compute."""

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.trainers.own_tasks import Sets
from tests.trainers.runs import Recorder, stepped
from tests.trainers.training.test_waits import waits
from trainers import Checkpoints, train
from trainers.check import check_class, check_metrics
from trainers.config.member import MemberConfig
from trainers.errors import ConfigError
from trainers.evaluation import evaluate as evaluation
from trainers.evaluation.evaluate import evaluate, evaluate_weights
from trainers.metrics.metric import EvaluatedBatch, Metric
from trainers.packs.evaluation_inputs import draw_evaluation_inputs
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState, collect_weights
from trainers.settings.fields import setting
from trainers.tasks.supervised import find_mistakes
from trainers.tensors.batch import Batch

CPU = torch.device("cpu")
COPY = {"name": "copy_string", "train_length": 4, "test_lengths": [6]}
DECODER = {"name": "decoder", "layers": 2, "width": 8, "heads": 2}
SHIPPED = {"cross_entropy": {}, "calibration": {"bins": 5}, "attention_entropy": {}}


def members(count: int, metrics: dict[str, Any] | None, **changes: Any) -> list[MemberConfig]:
    return [
        MemberConfig.from_dict(
            {
                "task": COPY,
                "model": DECODER,
                "training": {"steps": 8, "batch_size": 4, "learning_rate": 0.01 * (seed + 1), "compile": False},
                "evaluation": {"samples": 7, **({} if metrics is None else {"metrics": metrics})},
                "seed": seed,
                **changes,
            }
        )
        for seed in range(count)
    ]


def curves(pack: Pack, state: TrainingState) -> dict[str, np.ndarray]:
    names, values = evaluate(pack, state)
    return {name: values[:, 0, k] for k, name in enumerate(names)}


def plain_values(pack: Pack, state: TrainingState, index: int, test: Any) -> dict[str, float]:
    """The shipped metrics of one member on one batch, by a loop over rows and targets."""
    views = {name: value[index : index + 1] for name, value in pack.layout.split(state.theta).items()}
    batch = test.batch.for_members(torch.tensor([index]))
    with torch.no_grad():
        logits = pack.model.logits(views, batch, None, pack.form)[0]
        layers = [layer[0] for layer in pack.model.compute_attention(views, batch, None)]
    losses, entropies, confidences = [], [], []
    for row, targets in enumerate(batch.targets[0].tolist()):
        of_row, widths = [], []
        for place_in_row, target in enumerate(targets):
            if target == -100:
                continue
            chances = functional.softmax(logits[row, place_in_row], dim=-1)
            of_row.append(-float(chances[target].log()))
            confidences.append((float(chances.max()), int(chances.argmax()) == target))
            weights = [layer[row, head, place_in_row] for layer in layers for head in range(2)]
            widths.append(np.mean([-sum(float(w * w.log()) for w in of_head if w > 0) for of_head in weights]))
        losses.append(np.mean(of_row))
        entropies.append(np.mean(widths))
    gaps = [
        sum(right - confidence for confidence, right in confidences if min(int(confidence * 5), 4) == k)
        for k in range(5)
    ]
    return {
        "cross_entropy": float(np.mean(losses)),
        "attention_entropy": float(np.mean(entropies)),
        "calibration": float(np.abs(gaps).sum() / len(confidences)),
    }


def test_every_member_has_the_values_of_a_plain_script() -> None:
    pack = Pack(members(3, SHIPPED), CPU)
    state = stepped(pack)
    values = curves(pack, state)
    for test in draw_evaluation_inputs(pack):
        column = pack.lengths.index(test.lengths[0])
        for index in range(3):
            for name, value in plain_values(pack, state, index, test).items():
                assert values[name][index, column] == pytest.approx(value, rel=1e-4), (name, index, test.lengths)


def test_pieces_of_rows_have_the_values_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    pack = Pack(members(2, SHIPPED), CPU)
    state = stepped(pack)
    whole = curves(pack, state)
    monkeypatch.setattr(evaluation, "LOGITS_PER_MEMBER", 3 * pack.task.positions * pack.task.outputs)
    pieces = curves(pack, state)
    for name in SHIPPED:
        np.testing.assert_allclose(pieces[name], whole[name], rtol=2e-5, err_msg=name)


def test_kept_weights_have_the_values_of_the_evaluation() -> None:
    pack = Pack(members(2, SHIPPED), CPU)
    state = stepped(pack)
    names, values = evaluate(pack, state)
    later = evaluate_weights(pack, list(collect_weights(pack, state).values()))
    assert later[0] == names and (later[1] == values).all()


def test_lengths_of_one_batch_count_the_target_of_each() -> None:
    """set_complement scores every prefix: the cross-entropy at a length is that of its last position alone."""
    pack = Pack(members(2, {"cross_entropy": {}}, task={"name": "set_complement", "vocabulary": 8}), CPU)
    state = stepped(pack)
    values = curves(pack, state)
    for test in draw_evaluation_inputs(pack):
        batch = test.batch.for_members(torch.tensor([1]))
        views = {name: value[1:2] for name, value in pack.layout.split(state.theta).items()}
        with torch.no_grad():
            logs = torch.log_softmax(pack.model.logits(views, batch, None, pack.form)[0], dim=-1)
        for length in test.lengths:
            expected = -(logs[:, length - 1] * batch.targets[0, :, length - 1]).sum(dim=-1).mean()
            assert values["cross_entropy"][1, pack.lengths.index(length)] == pytest.approx(float(expected), rel=1e-5)


def test_a_metric_changes_no_name_and_no_bit_of_a_member() -> None:
    without, added = members(2, None), members(2, SHIPPED)
    assert [member.config_id for member in without] == [member.config_id for member in added]
    assert "metrics" not in without[0].to_dict()["evaluation"]
    assert MemberConfig.from_dict(added[0].to_dict()) == added[0]
    plain, measured = Pack(without, CPU), Pack(added, CPU)
    before, now = stepped(plain), stepped(measured)
    assert torch.equal(before.theta, now.theta)
    old, new = curves(plain, before), curves(measured, now)
    assert [*new] == [*old, *SHIPPED]
    for name, values in old.items():
        assert values.tobytes() == new[name].tobytes(), name


class Watching(Metric):
    """Records what it sees; the number of training steps at the lengths up to `longest`."""

    direction: ClassVar[str] = "none"
    longest: int | None = setting(None, help="the longest length at which it is defined")
    seen: ClassVar[list[EvaluatedBatch]] = []

    def score_rows(self, seen: EvaluatedBatch) -> Tensor:
        self.seen.append(seen)
        rows = seen.logits.new_ones(*seen.logits.shape[:2], len(seen.lengths)) * seen.step
        rows[:, 0] = torch.nan  # a row without a value
        return rows

    def defined_lengths(self, task: Any, lengths: tuple[int, ...]) -> tuple[int, ...]:
        return lengths if self.longest is None else tuple(length for length in lengths if length <= self.longest)


@pytest.fixture
def watching(registered) -> list[EvaluatedBatch]:
    registered("metric", "watching", Watching)
    Watching.seen.clear()
    return Watching.seen


def test_it_sees_step_and_weights_and_leaves_out_what_is_undefined(watching: list[EvaluatedBatch]) -> None:
    pack = Pack(members(2, {"steps": {"kind": "watching", "longest": 5}}), CPU)
    recorded = pack.metrics["steps"]
    assert recorded.lengths == tuple(length for length in pack.lengths if length <= 5) != pack.lengths
    values = curves(pack, stepped(pack))["steps"]
    for length, value in zip(pack.lengths, values[1], strict=True):
        assert value == 8 if length <= 5 else np.isnan(value)
    assert {length for seen in watching for length in seen.lengths} == {*recorded.lengths}
    assert all(len(weights) == len(pack) for weights in watching[0].weights.values())
    assert (
        watching[0].counted is watching[0].target_mask and watching[0].mistakes is watching[0].mistake_mask
    )  # old names


def test_a_run_killed_and_resumed_has_the_metrics_of_the_whole(tmp_path, watching, recorder: Recorder) -> None:
    """Earlier evaluations are reported again from the checkpoint, with the values that they had."""
    changes = {"evaluation": {"samples": 8, "every": 2, "metrics": {"steps": {"kind": "watching"}}}}
    whole = members(2, None, **changes)
    train(whole, recorder)
    stopped, resumed = StopsAt(4), Recorder()
    train(whole, stopped, checkpoints=Checkpoints(folder=tmp_path))
    train(whole, resumed, checkpoints=Checkpoints(folder=tmp_path))
    assert [evaluation.step for evaluation in resumed.evaluations] == [2, 4, 6, 8]
    for before, now in zip(recorder.evaluations, resumed.evaluations, strict=True):
        k = now.metrics.index("steps")
        assert (now.values_MAKL[:, :, k] == now.step).all()
        assert before.values_MAKL.tobytes() == now.values_MAKL.tobytes()


class StopsAt(Recorder):
    def __init__(self, step: int) -> None:
        super().__init__()
        self.step = step

    def report(self, evaluation) -> bool:  # type: ignore[override]
        super().report(evaluation)
        return evaluation.step >= self.step


def problems(metrics: dict[str, Any], **changes: Any) -> list[tuple[str, Any]]:
    with pytest.raises(ConfigError) as caught:
        members(1, metrics, **changes)
    return [(problem.key, problem.nearest) for problem in caught.value.problems]


def test_what_a_task_or_a_name_does_not_allow_is_refused(registered) -> None:
    assert problems({"calibrations": {}}) == [("evaluation.metrics.calibrations", "calibration")]
    assert problems({"x": {"kind": "calibrations"}}) == [("evaluation.metrics.x.kind", "calibration")]
    assert problems({"calibration": {"bin": 3}}) == [("evaluation.metrics.calibration.bin", "bins")]
    assert problems({}) == [("evaluation.metrics", None)]
    assert problems(["calibration"]) == [("evaluation.metrics", None)]  # type: ignore[arg-type]
    assert problems({"a.b": "calibration"}) == [("evaluation.metrics", None)]
    assert problems({"accuracy": "calibration"}) == [("evaluation.metrics.accuracy", None)]
    assert problems({"calibration": {}}, task={"name": "cycles"}) == [("evaluation.metrics.calibration", None)]
    registered("metric", "sideways", type("Sideways", (Watching,), {"direction": "up"}))
    assert problems({"sideways": {}}) == [("evaluation.metrics.sideways", None)]
    with pytest.raises(ConfigError):  # its values would decide what is trained
        members(1, {"calibration": {}}, training={"steps": 4, "batch_size": 2, "learning_rate": 0.1} | STOPPING)


STOPPING: dict[str, Any] = {"stop": {"metric": "calibration", "threshold": 0.1}}


class Mixes(Metric):
    """The mean logit over all members."""

    direction: ClassVar[str] = "none"

    def score_rows(self, seen: EvaluatedBatch) -> Tensor:
        return seen.logits.mean(dim=(0, 2, 3))[None, :, None].expand(len(seen.logits), -1, len(seen.lengths))


class Flat(Mixes):
    def reduce(self, rows: Tensor, lengths: tuple[int, ...]) -> Tensor:
        return rows.mean(dim=(1, 2))


def test_a_trial_says_what_is_wrong_with_a_metric(registered) -> None:
    registered("metric", "mixes", Mixes)
    registered("metric", "flat", Flat)
    assert len(check_metrics(members(1, {"mixes": {}})[0])) == len(check_class("metric", "mixes")) == 1
    assert len(check_class("metric", "flat")) == 1
    assert check_metrics(members(1, SHIPPED)[0]) == []
    assert len(check_metrics(members(1, {"attention_entropy": {}}, model={"name": "lstm", "width": 4})[0])) == 1
    twice = replace(members(1, {"cross_entropy": {}})[0], task=Sets())  # a length has two batches of different metrics
    assert len(check_metrics(twice)) == 1
    several = members(1, {"calibration": {}}, task={"name": "ring_regression", "ring": 5, "window": 2})[0]
    assert len(check_metrics(several)) == 1


class Raises(Mixes):
    def score_rows(self, seen: EvaluatedBatch) -> Tensor:
        return seen.logits[seen.lengths[0] + 10**6]


class Narrow(Mixes):
    def score_rows(self, seen: EvaluatedBatch) -> Tensor:
        return seen.logits.mean(dim=(1, 2, 3))


@pytest.mark.parametrize(("cls", "words"), [(Raises, ["IndexError"]), (Narrow, ["(M, B, L)"]), (Flat, ["(M, L)"])])
def test_a_trial_names_the_metric_and_its_line(registered, cls: type[Metric], words: list[str]) -> None:
    registered("metric", "wrong", cls)
    ((label, problem),) = check_metrics(members(1, {"calibration": {}, "mine": {"kind": "wrong"}})[0])
    code = (cls.reduce if cls is Flat else cls.score_rows).__code__
    lines = {f"{__file__}:{line}," for line in range(code.co_firstlineno, code.co_firstlineno + 2)}
    assert label == "mine" and any(line in problem for line in lines) and all(word in problem for word in words)


def test_nothing_waits_for_a_metric() -> None:
    pack = Pack(members(2, SHIPPED), CPU)
    state = TrainingState.make_initial(pack)
    assert waits(lambda: evaluate(pack, state)) == set()


@pytest.mark.parametrize("task", [COPY, {"name": "set_complement"}])
@pytest.mark.parametrize("token", [None, 4])
def test_logits_that_are_not_numbers_are_never_good(
    task: dict[str, Any], token: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All logits are NaN, or those after a token; no metric of a task and no shipped metric gets better by that."""
    metrics = {name: {} for name in ("cross_entropy", "calibration")} if task is COPY else None
    pack = Pack(members(1, metrics, task=task), CPU)
    state = stepped(pack)
    healthy = curves(pack, state)
    compute_logits = type(pack.model).logits

    def lose_logits(model: Any, weights: Any, batch: Any, *others: Any) -> Tensor:
        is_lost = (batch.tokens == token).cumsum(-1) > 0 if token is not None else batch.tokens >= 0
        return compute_logits(model, weights, batch, *others).masked_fill(is_lost[..., None], torch.nan)

    monkeypatch.setattr(type(pack.model), "logits", lose_logits)
    broken = curves(pack, state)
    for name, metric in pack.metrics.items():
        sign = {"minimize": 1, "maximize": -1, "none": 0}[metric.direction]
        assert not (sign * broken[name] < sign * healthy[name]).any(), name
    if token is not None and task is COPY:
        assert np.isposinf(broken["cross_entropy"]).any()  # rows without the token are not all that counts


def test_a_token_is_not_right_by_logits_that_are_nan() -> None:
    """The index of the largest is 0 if all are NaN."""
    logits = torch.full((1, 1, 1, 5), torch.nan)
    for targets in (torch.zeros(1, 1, 1, dtype=torch.int64), torch.ones(1, 1, 1, 5) / 5):
        assert find_mistakes(logits, Batch(torch.zeros(1, 1, 1, dtype=torch.int64), targets)).all()
