"""Torch modules of one's own under vmap: what they start as, what they compute, and what is refused before training."""

import importlib
import itertools
import re

import pytest
import torch

from tests.trainers.models import own_modules
from tests.trainers.models.own_modules import Dropping, OfWidth
from tests.trainers.own_tasks import mean_loss
from tests.trainers.runs import check_alone, stepped
from trainers.check import check_class
from trainers.config.member import MemberConfig
from trainers.errors import ConfigError
from trainers.models.model import Model
from trainers.models.vmapped import _build_template, _try_build
from trainers.packs.pack import Pack
from trainers.packs.training_state import TrainingState
from trainers.random import Stream
from trainers.settings import registry
from trainers.settings.contract import find_contract_problems
from trainers.settings.fields import setting
from trainers.tasks.set_complement import SetComplement
from trainers.tensors.batch import Batch
from trainers.tensors.noise import Noise
from trainers.training.compiling import should_compile
from trainers.training.step import sample_batches, train_next_step

CPU = torch.device("cpu")
TASK = SetComplement(vocabulary=9, train_length=4)
SIZES = (TASK.inputs, TASK.outputs, TASK.positions)


def vmapped(name: str) -> dict[str, str]:
    return {"name": "vmapped", "module": f"{own_modules.__name__}.{name}"}


@pytest.mark.parametrize("name", ["Net", "WithAttends", "WithoutDropout", "WithGru"])
def test_each_member_is_the_module_built_after_its_seed(member, name: str) -> None:
    pack = Pack([member(seed, model=vmapped(name), task__vocabulary=9, task__train_length=4) for seed in (3, 5)], CPU)
    state = TrainingState.make_initial(pack)
    tokens = torch.randint(0, TASK.inputs, (2, 4, 6), generator=torch.Generator().manual_seed(0))
    logits = pack.model.logits(pack.layout.split(state.theta), Batch(tokens, tokens), None, pack.form)
    assert logits.shape == (2, 4, 6, TASK.outputs)
    for m, seed in enumerate((3, 5)):
        torch.manual_seed(seed)
        module = getattr(own_modules, name)(*SIZES)
        torch.testing.assert_close(logits[m], module(tokens[m]).detach(), rtol=1e-5, atol=1e-6)
    assert not torch.allclose(state.theta[0], state.theta[1])


def test_building_a_pack_leaves_the_random_numbers_of_the_library(member) -> None:
    torch.manual_seed(1)
    before = torch.rand(3)
    torch.manual_seed(1)
    TrainingState.make_initial(Pack([member(model=vmapped("Net"))], CPU))
    assert torch.equal(torch.rand(3), before)


DROPPING = ["WithDropout", "WithDroppedSteps"]


@pytest.mark.parametrize("name", ["Net", "WithAttends", "WithGru", "WithLstm", "WithSteps", *DROPPING])
def test_a_member_trains_alone_as_in_a_pack(member, name: str) -> None:
    changes = {"model": vmapped(name), "training__learning_rate": 1e-2}
    check_alone(lambda seeds: Pack([member(seed, **changes) for seed in seeds], CPU))


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_member_has_its_own_dropout_rate_alone_as_in_a_pack(member, registered, recurrent, accumulation) -> None:
    registered("model", "dropping", Dropping)
    rates = {2: 0.1, 7: 0.5, 5: 0.3}

    def pack_of(seeds: tuple[int, ...]) -> Pack:
        return Pack([member_of(seed, rates[seed]) for seed in seeds], CPU)

    def member_of(seed: int, rate: float) -> MemberConfig:
        model = {"name": "dropping", "dropout": rate, "recurrent": recurrent}
        return member(seed, model=model, training__learning_rate=1e-2, training__accumulation=accumulation)

    check_alone(pack_of)
    weights = [stepped(Pack([member_of(7, rate)], CPU), 2).theta for rate in (0.0, 0.1, 0.5)]
    assert not any(torch.equal(first, second) for first, second in itertools.combinations(weights, 2))


@pytest.mark.parametrize("recurrent", [False, True])
def test_dropout_multiplies_by_the_factors_of_its_call_in_training_alone(recurrent) -> None:
    model = Dropping(dropout=0.3, recurrent=recurrent)
    weights = model.make_initial_values(TASK, torch.tensor([3, 5]))
    tokens = torch.randint(0, TASK.inputs, (2, 4, 6), generator=torch.Generator().manual_seed(0))
    batch, form = Batch(tokens, tokens), model.choose_form(TASK)
    rates, stream = (
        torch.tensor([0.1, 0.6], dtype=torch.float64),
        Stream(torch.tensor([3, 5]), "dropout", torch.tensor(1)),
    )
    noise = Noise(stream, None, rates)
    logits = model.logits(weights, batch, noise, form)
    shape = (*tokens.shape[1:], 8)
    before, after = (noise.dropout_factors(call, shape, torch.float32) for call in (0, 1))
    for m, seed in enumerate((3, 5)):
        torch.manual_seed(seed)
        module = model.build(*SIZES)
        x = before[m] * module.table(tokens[m]).cumsum(dim=-2) / module.counts[:6, None]
        expected = module.head(after[m] * module.inner[1](x))
        torch.testing.assert_close(logits[m], expected.detach(), rtol=1e-5, atol=1e-6)
    assert 0.05 < float((before[0] == 0).float().mean()) < 0.16 and 0.5 < float((before[1] == 0).float().mean()) < 0.7
    without = model.logits(weights, batch, None, form)
    evaluated = model.logits(weights, batch, Noise(stream, None, training=False, total=9), form)
    assert torch.equal(without, evaluated) and not torch.equal(without, logits)


def test_a_rate_without_a_layer_that_drops_is_refused(sections, registered, monkeypatch) -> None:
    registered("model", "dropping", Dropping)
    monkeypatch.setattr(Dropping, "build", lambda self, *sizes: own_modules.Net(*sizes))
    _try_build.cache_clear(), _build_template.cache_clear()
    with pytest.raises(ConfigError) as caught:
        MemberConfig.from_dict(sections(model={"name": "dropping", "dropout": 0.5}))
    assert [(problem.key, problem.given) for problem in caught.value.problems] == [("model.dropout", 0.5)]
    MemberConfig.from_dict(sections(model={"name": "dropping", "dropout": 0.0}))
    _try_build.cache_clear(), _build_template.cache_clear()


def test_the_message_about_a_field_dropout_says_what_works() -> None:
    class Declared(OfWidth):
        dropout: float = setting(0.1)

    (problem,) = find_contract_problems("model", Declared, Model, {"width": int, "dropout": float})
    where, _, call = re.search(r"([\w.]+)\.(\w+)\(\)", problem)[0].rpartition(".")
    field = getattr(importlib.import_module(where), call.removesuffix("()"))()

    class Mended(OfWidth):
        dropout: float = field

    assert not list(find_contract_problems("model", Mended, Model, {"width": int, "dropout": float}))


@pytest.mark.parametrize("name", ["Net", "WithGru"])
def test_training_is_that_of_the_module(member, name: str) -> None:
    """AdamW of torch on the module itself, with the batches of the seed."""
    pack = Pack([member(7, model=vmapped(name), training__weight_decay=0.0)], CPU)
    state = TrainingState.make_initial(pack)
    torch.manual_seed(7)
    module = getattr(own_modules, name)(pack.task.inputs, pack.task.outputs, pack.task.positions)
    at = pack.members[0].training
    optimizer = torch.optim.AdamW(module.parameters(), lr=at.learning_rate, betas=at.betas, weight_decay=0.0)
    for step in range(5):
        (batch,) = sample_batches(pack, torch.tensor(step + 1), at.batch_size)
        train_next_step(pack, state)
        optimizer.zero_grad()
        mean_loss(pack.task, module(batch.tokens[0])[None], batch).sum().backward()
        optimizer.step()
    views = pack.layout.split(state.theta)
    for name, value in module.named_parameters():
        torch.testing.assert_close(views[name][0], value.detach(), rtol=1e-3, atol=1e-5)


def test_decay_acts_on_matrices_that_are_no_tables() -> None:
    model = registry.build("model", vmapped("Net"))
    decayed = {parameter.name for parameter in model.parameters(TASK) if parameter.decay}
    assert decayed == {"inner.0.weight", "head.weight"}


LOOPED = {
    "WithLstm": r"no vmap rule for aten::lstm \(.*own_modules.py:\d+, forward\)",
    "WithGru": r"no vmap rule for aten::gru ",
    "WithSteps": r"no vmap rule for aten::gru_cell ",
    "WithRenorms": r"no vmap rule for aten::renorm ",  # torch would go member by member
    "WithReads": r"torch.func.vmap cannot run it, RuntimeError",
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("name", "reason"), LOOPED.items(), ids=LOOPED)
def test_a_module_that_vmap_cannot_run_is_called_member_by_member(member, name: str, reason: str) -> None:
    config = member(model=vmapped(name))
    assert re.match(reason, config.model.explain_loop(config.task) or "")
    assert Pack([config], CPU).form.startswith("looped ")
    assert Pack([member(model=vmapped("Net"))], CPU).form.startswith("vmapped ")


def test_a_check_of_the_class_says_what_a_configuration_says(monkeypatch, registered) -> None:
    monkeypatch.setattr(OfWidth, "build", lambda self, *sizes: own_modules.WithSees(*sizes))
    registered("model", "of_width", OfWidth)
    _try_build.cache_clear(), _build_template.cache_clear()
    (problem,) = check_class("model", "of_width")
    assert problem.startswith("cannot be used with the task set_complement: model.name: WithSees: is not causal")
    monkeypatch.setattr(
        OfWidth, "trial_task", {"name": "padded_addition", "width": 4, "train_digits": 2}, raising=False
    )
    assert not list(check_class("model", "of_width"))
    _try_build.cache_clear(), _build_template.cache_clear()


REFUSED = {
    "WithDrops": r"draws random numbers, .*allowed: nn.Dropout layers.* \(.*own_modules.py:\d+, <lambda>\)",
    "WithNoisy": r"draws random numbers",
    "WithDeepGru": r"draws random numbers",
    "WithCounts": r"changes its buffer inner.calls in each call",
    "WithRemembers": r"returns other logits in a second call",
    "WithRefuses": r"WithRefuses: fails with ValueError: no more than 3 \(.*own_modules.py:\d+, forward\)",
    "WithInfinite": r"returns logits that are not finite",
    "WithConv": r"fails with RuntimeError: .*expected input",
    "WithSees": r"sees the tokens that it should predict",
    "WithTimeFirst": r"mixes rows of a batch",
    "WithNarrow": r"returns the shape \(3, 2, 8\) for tokens \(3, 7\); allowed: logits \(3, 7, 8\)",
    "WithDrawn": r"buffer inner.table is random",
    "WithFrozen": r"parameter inner.still is not trained",
    "Broken": r"cannot be built: RuntimeError: no such thing \(.*own_modules.py:\d+, __init__\)",
    "Nett": r"has no class Nett that derives from",
    "torch": r"no class torch that derives from torch.nn.Module",
}


@pytest.mark.filterwarnings("ignore")  # which is all that torch says of an operator that it does member by member
@pytest.mark.parametrize(("name", "message"), REFUSED.items(), ids=REFUSED)
def test_what_cannot_be_stacked_is_refused_by_name(sections, name: str, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"(?s)model.module.*{message}"):
        MemberConfig.from_dict(sections(model=vmapped(name)))


def test_a_module_that_is_not_imported_and_a_compiled_step_are_refused(sections) -> None:
    with pytest.raises(ConfigError, match=r"'nowhere' is not imported; list the module under `imports`"):
        MemberConfig.from_dict(sections(model={"name": "vmapped", "module": "nowhere.Net"}))
    with pytest.raises(ConfigError, match=r"(?s)training.compile.*vmapped cannot be compiled"):
        MemberConfig.from_dict(sections(model=vmapped("Net"), training__compile=True))
    long = sections(model=vmapped("Net"), training__steps=10**7, training__compile="auto")
    assert not should_compile(MemberConfig.from_dict(long))


def test_a_model_of_ones_own_has_settings_of_its_own(member) -> None:
    assert not list(find_contract_problems("model", OfWidth, Model, {"width": int}))
    sizes = [sum(parameter.size for parameter in OfWidth(width=width).parameters(TASK)) for width in (4, 9)]
    assert sizes[1] - sizes[0] == 5 * (8 + 1 + 8)
    with pytest.raises(ValueError, match="groups"):
        tokens = torch.zeros(1, 1, 3, dtype=torch.int64)
        OfWidth().logits({}, Batch(tokens, tokens, groups=tokens), None, OfWidth().choose_form(TASK))
