"""What a module of one's own records: metrics and curves of every member, and no trace of it in training."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.trainers.models import own_modules
from tests.trainers.own_tasks import Last
from tests.trainers.runs import check_alone, stepped
from tests.trainers.training.test_waits import waits
from trainers.check import check_metrics, check_model
from trainers.config.member import MemberConfig
from trainers.errors import ConfigError
from trainers.evaluation.evaluate import evaluate
from trainers.metrics.metric import EvaluatedBatch, Metric
from trainers.models.vmapped import Vmapped, _try_build
from trainers.packs.evaluation_inputs import draw_evaluation_inputs
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.tasks.task import Task
from trainers.tensors.batch import Batch
from trainers.tensors.recording import Values, record, record_into

CPU = torch.device("cpu")
DIRECTIONS = {"size": "none", "even": "none", "spread": "minimize", "depth": "none", "norm": "none"}


class Net(own_modules.Net):
    """Records a number, a value of the member, of each row and of each token, and two values under one name."""

    calls: ClassVar[list[int]] = []  # one for each value that is computed only if something reads it

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.table(tokens)
        record("depth", tokens.shape[-1])
        record("size", self.head.weight.norm())
        record("even", (tokens % 2 == 0).sum(dim=-1))
        record("spread", lambda: self.calls.append(1) or x.std(dim=-1))
        record("norm", x.norm(dim=-1))
        logits = super().forward(tokens)
        record("norm", logits.norm(dim=-1))
        record("logits", logits)
        return logits


class Recurrent(Net):
    """The same with a layer that vmap cannot run."""

    def __init__(self, inputs: int, outputs: int, positions: int) -> None:
        super().__init__(inputs, outputs, positions, nn.GRU(8, 8, batch_first=True))


class Recording(Vmapped):
    """Either module, with metrics."""

    metrics: ClassVar[Mapping[str, str]] = DIRECTIONS
    net: ClassVar[type[nn.Module]] = Net

    def build(self, inputs: int, outputs: int, positions: int) -> nn.Module:
        return self.net(inputs, outputs, positions)


class Looped(Recording):
    net = Recurrent


class Unread(Recording):
    metrics: ClassVar[Mapping[str, str]] = {}


FORMS = {"stacked": Recording, "looped": Looped}


class FromTheLast(Metric):
    """The largest logit of the last token, as recorded; not defined at the shortest length."""

    direction: ClassVar[str] = "none"
    value: ClassVar[str] = "logits"

    def score_rows(self, evaluated: EvaluatedBatch) -> Tensor:
        (logits,) = evaluated.recorded(self.value)
        return logits[:, :, -1].amax(dim=-1)[..., None]

    def defined_lengths(self, task: Task, lengths: tuple[int, ...]) -> tuple[int, ...]:
        return lengths[1:]


class Misspelt(FromTheLast):
    value = "logit"


@pytest.fixture(autouse=True)
def _models(registered) -> None:
    for name, cls in {**FORMS, "unread": Unread}.items():
        registered("model", name, cls)
    registered("metric", "from_the_last", FromTheLast)
    registered("metric", "misspelt", Misspelt)
    registered("task", "last", Last)
    Net.calls.clear()


def members(seeds: tuple[int, ...], model: str, metrics: dict[str, Any] | None = None) -> list[MemberConfig]:
    training = {"steps": 8, "batch_size": 4, "learning_rate": 0.01, "compile": False}
    evaluated = {"samples": 7, **({"metrics": metrics} if metrics else {})}
    sections = {"task": {"name": "last"}, "model": {"name": model}, "training": training, "evaluation": evaluated}
    return [MemberConfig.from_dict({**sections, "seed": seed}) for seed in seeds]


def curves(pack: Pack, state: TrainingState) -> dict[str, np.ndarray]:
    names, values = evaluate(pack, state)
    return {name: values[:, 0, k] for k, name in enumerate(names)}


def module_of(pack: Pack, state: TrainingState, m: int) -> nn.Module:
    """The module with the weights of a member."""
    module = pack.model.net(pack.task.inputs, pack.task.outputs, pack.task.positions)
    module.load_state_dict({name: value[m] for name, value in pack.layout.split(state.theta).items()}, strict=False)
    return module.requires_grad_(False)


def plain_values(module: nn.Module, batch: Batch) -> dict[str, float]:
    """The metrics of a module on the rows of a lone member, by a loop over rows and their counted targets."""
    with torch.no_grad():
        x, logits = module.table(batch.tokens[0]), module(batch.tokens[0])
    values: dict[str, list[float]] = {name: [] for name in DIRECTIONS}
    for row, tokens in enumerate(batch.tokens[0].tolist()):
        values["depth"].append(len(tokens))
        values["size"].append(float(module.head.weight.norm()))
        values["even"].append(sum(token % 2 == 0 for token in tokens))
        counted = [t for t, weight in enumerate(batch.weight[0, row].tolist()) if weight > 0]
        values["spread"].append(np.mean([float(x[row, t].std()) for t in counted]))
        values["norm"].append(np.mean([float(x[row, t].norm() + logits[row, t].norm()) / 2 for t in counted]))
    return {name: float(np.mean(of_rows)) for name, of_rows in values.items()}


@pytest.mark.parametrize("model", FORMS)
def test_every_member_has_the_values_of_a_plain_script(model: str) -> None:
    pack = Pack(members((3, 5, 8), model), CPU)
    assert pack.form.startswith("looped" if model == "looped" else "vmapped")
    state = stepped(pack)
    values = curves(pack, state)
    for test in draw_evaluation_inputs(pack):
        column = pack.lengths.index(test.lengths[0])
        for m in range(3):
            expected = plain_values(module_of(pack, state, m), test.batch.for_members(torch.tensor([m])))
            for name, value in expected.items():
                assert values[name][m, column] == pytest.approx(value, rel=1e-4), (name, m, test.lengths)


@pytest.mark.parametrize("model", FORMS)
def test_a_member_trains_alone_as_in_a_pack(model: str) -> None:
    check_alone(lambda seeds: Pack(members(seeds, model, {"from_the_last": {}}), CPU))


def test_nothing_is_recorded_in_training_or_where_nothing_reads_it() -> None:
    states = dict[str, tuple[Pack, TrainingState]]()
    for name in ("stacked", "unread"):
        pack = Pack(members((3, 5), name), CPU)
        Net.calls.clear()  # of the trial
        states[name] = pack, stepped(pack)
        assert not Net.calls
    assert torch.equal(*(state.theta for _, state in states.values()))
    unread = curves(*states["unread"])
    assert not Net.calls
    read = curves(*states["stacked"])
    assert Net.calls and [*read] == [*unread, *DIRECTIONS]
    assert all(read[name].tobytes() == values.tobytes() for name, values in unread.items())


def test_a_metric_reads_what_is_recorded_where_it_is_defined() -> None:
    pack = Pack(members((3, 5), "unread", {"from_the_last": {}}), CPU)
    state = stepped(pack)
    values = curves(pack, state)["from_the_last"]
    assert pack.metrics["from_the_last"].lengths == pack.lengths[1:]
    for test, column in zip(draw_evaluation_inputs(pack), range(len(pack.lengths)), strict=True):
        with torch.no_grad():
            logits = module_of(pack, state, 1)(test.batch.for_members(torch.tensor([1])).tokens[0])
        expected = float(logits[:, -1].amax(dim=-1).mean())
        assert np.isnan(values[1, 0]) if column == 0 else values[1, column] == pytest.approx(expected, rel=1e-5)


def test_a_metric_that_reads_what_is_not_recorded_is_named() -> None:
    (member,) = members((0,), "unread", {"misspelt": {}})
    ((label, problem),) = check_metrics(member)
    code = Misspelt.score_rows.__code__
    assert label == "misspelt" and "'logit'" in problem and "did you mean logits?" in problem
    assert f"{__file__}:{code.co_firstlineno + 1}," in problem


def test_recorded_values_have_gradients_in_a_pass_that_asks_for_them() -> None:
    pack = Pack(members((3, 5), "stacked"), CPU)
    theta = TrainingState.make_initial(pack).theta.requires_grad_()
    tokens = torch.zeros(2, 4, 6, dtype=torch.int64)
    values: dict[str, Tensor] = {}
    pack.model.logits(pack.layout.split(theta), Batch(tokens, tokens), None, pack.form, values.__setitem__)
    assert values["spread"].shape == (2, 4, 6) and values["size"].shape == values["depth"].shape == (2,)
    (gradient,) = torch.autograd.grad(values["spread"].sum(), theta)
    assert (gradient.abs().sum(dim=1) > 0).all()


def refused(**of_class: Any) -> list[tuple[str, str | None]]:
    """Key and nearest match of the problems of a model with these attributes."""
    cls = type("Refused", (Recording,), of_class)
    return [(problem.key, problem.nearest) for problem in cls().find_task_problems(Last())]


def test_a_metric_that_the_module_does_not_record_is_refused() -> None:
    assert refused() == []
    assert refused(metrics={"depths": "none"}) == [("name", "depth")]
    assert refused(metrics={"logits": "none"}) == [("name", None)]  # no value of each row or token
    assert refused(metrics={"logits": "none"}, measure_rows=lambda self, *given: {}) == []

    class Generating(Last):
        def score_batch(self, forward: Any, batch: Batch, lengths: tuple[int, ...]) -> dict[str, Tensor]:
            return super().score_batch(forward, batch, lengths)

    assert [problem.key for problem in Recording().find_task_problems(Generating())] == ["name"]


def test_a_module_of_its_own_name_declares_metrics_as_a_class_attribute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_modules, "Declaring", type("Declaring", (Net,), {"metrics": {"even": "none"}}), False)
    section = {"name": "vmapped", "module": f"{own_modules.__name__}.Declaring"}
    member = replace(members((0,), "unread")[0])
    member = MemberConfig.from_dict({**member.to_dict(), "model": section})
    assert "even" in member.metrics and member.model.recorded_metrics == ("even",)
    monkeypatch.setattr(own_modules.Declaring, "metrics", {"evens": "none"})
    _try_build.cache_clear()
    with pytest.raises(ConfigError) as caught:
        MemberConfig.from_dict({**member.to_dict(), "model": section})
    assert [(problem.key, problem.nearest) for problem in caught.value.problems] == [("model.module", "even")]


def test_a_value_of_each_row_is_refused_for_a_batch_of_several_lengths(registered) -> None:
    """The metrics of set_complement at all lengths are those of one row at its prefixes."""
    registered("model", "of_tokens", type("OfTokens", (Recording,), {"metrics": {"spread": "none", "depth": "none"}}))
    of_tokens, of_rows = (
        {
            "task": {"name": "set_complement", "vocabulary": 8},
            "model": {"name": name},
            "training": {"steps": 2, "batch_size": 4, "learning_rate": 0.01},
        }
        for name in ("of_tokens", "stacked")
    )
    assert check_model(of_tokens) == []
    (problem,) = check_model(of_rows)
    assert "even" in problem
    pack = Pack([MemberConfig.from_dict(of_tokens)], CPU)
    state = TrainingState.make_initial(pack)
    values, module = curves(pack, state), module_of(pack, state, 0)
    for test in draw_evaluation_inputs(pack):
        for length in test.lengths:
            expected = module.table(test.batch.tokens[0, :, length - 1]).std(dim=-1).mean()
            assert values["spread"][0, pack.lengths.index(length)] == pytest.approx(float(expected), rel=1e-5)


def test_members_called_one_after_another_record_equally_often() -> None:
    class Often(Recurrent):
        def forward(self, tokens: Tensor) -> Tensor:
            for _ in range(1 + int(tokens.sum()) % 2):
                record("often", 1.0)
            return super().forward(tokens)

    model = type("Reading", (Looped,), {"net": Often, "metrics": {"often": "none"}})()
    tokens = torch.tensor([[[0, 1, 1]], [[0, 1, 0]]])
    weights = model.make_initial_values(Last(), torch.tensor([0, 1]))
    form = f"looped {model.choose_form(Last()).split(' ', 1)[1]}"
    with pytest.raises(ValueError, match="often"):
        model.logits(weights, Batch(tokens, tokens), None, form, lambda name, value: None)
    model.logits(weights, Batch(tokens, tokens), None, form)


def test_nothing_waits_for_what_is_recorded() -> None:
    pack = Pack(members((3, 5), "stacked", {"from_the_last": {}}), CPU)
    state = TrainingState.make_initial(pack)
    assert waits(lambda: evaluate(pack, state)) == set()


def test_values_of_an_inner_context_stay_in_it() -> None:
    outer, inner = Values(), Values()
    record("lost", 0.0)
    with record_into(outer):
        with record_into(inner):
            record("a", 1.0)
        record("b", 2.0)
    assert (outer, inner) == ({"b": [2.0]}, {"a": [1.0]})
